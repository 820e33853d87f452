package process

// Files is how the file descriptors of the process are divided.
type Files struct {
	Tables      int // files of tables that the storage keeps open; 0 is its default
	Connections int // connections that a server holds; 0 is no limit
	Databases   int // databases in folders, if a server has more than one; 0 is no limit
}

const (
	// otherFiles is how many descriptors are left for other uses: the WAL, tables that
	// are written, the listener, files of backups.
	otherFiles = 32
	// maxTables is as many as Pebble keeps open by default.
	maxTables = 990
	// databaseFiles is how many a small database in a folder has open.
	databaseFiles = 16
)

// DivideFiles divides the descriptors that the system allows this process.
func DivideFiles() Files { return divideFiles(maxFiles()) }

// divideFiles divides n descriptors, or an unknown number if n is 0. Reads can have twice as
// many tables open as are kept.
func divideFiles(n uint64) Files {
	if n == 0 || n > 1<<30 {
		return Files{}
	}
	left := max(4, int(n)-otherFiles)
	tables := min(maxTables, max(1, left/4))
	return Files{Tables: tables, Connections: max(1, left-2*tables), Databases: max(1, left/2/databaseFiles)}
}
