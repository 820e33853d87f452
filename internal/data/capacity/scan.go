package capacity

// Scan adds up what a scan costs. It reads partition after partition, and each
// is charged separately, also one without items.
type Scan struct {
	Consistent bool
	Partition  int // that is being read

	bytes int
	units float64 // of the partitions before it
}

// Enter continues the scan in a partition.
func (s *Scan) Enter(partition int) {
	for ; s.Partition < partition; s.Partition++ {
		s.units += Read(s.bytes, s.Consistent)
		s.bytes = 0
	}
}

// Add adds an item of the current partition.
func (s *Scan) Add(sizeBytes int) { s.bytes += sizeBytes }

// Units is the cost of the scan so far.
func (s *Scan) Units() float64 { return s.units + Read(s.bytes, s.Consistent) }
