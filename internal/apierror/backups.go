package apierror

import (
	"net/http"
	"time"
)

// TableNotFound is NotFound in the words of the operations on backups.
func TableNotFound(name string) *Error {
	return fault("TableNotFoundException", "Table not found: %s", name)
}

// TableExists is a restore into a table that exists.
func TableExists(name string) *Error {
	return fault("TableAlreadyExistsException", "Table already exists: %s", name)
}

// TableInUse is a restore into a table that is being created or deleted.
func TableInUse(name, state string) *Error {
	doing := map[string]string{"CREATING": "created", "DELETING": "deleted"}[state]
	return fault("TableInUseException", "Table is being %s: %s", doing, name)
}

// BackupsNotReady is a table that is too new to have backups.
func BackupsNotReady(table string) *Error {
	return fault("ContinuousBackupsUnavailableException", "Backups are being enabled for the table: %s. Please retry later", table)
}

// BackupNotFound is an ARN that names no backup.
func BackupNotFound(arn string) *Error {
	return fault("BackupNotFoundException", "Backup not found: %s", arn)
}

// BackupInUse is a backup that is being created or restored.
func BackupInUse(arn string) *Error {
	return fault("BackupInUseException", "Backup is being used by another control plane operation: %s", arn)
}

// NoRecovery is a table that cannot be restored to any second.
func NoRecovery(table string) *Error {
	return fault("PointInTimeRecoveryUnavailableException", "Point in time recovery is not enabled for table '%s'", table)
}

// InvalidRestoreTime is a second that a table cannot be restored to.
func InvalidRestoreTime(at, earliest, latest time.Time) *Error {
	text := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	return fault("InvalidRestoreTimeException", "The restore time %s is not within the valid range: %s - %s", text(at), text(earliest), text(latest))
}

// Internal is a failure on our side whose message helps the customer.
func Internal(format string, args ...any) *Error {
	e := fault("InternalServerError", format, args...)
	e.Status = http.StatusInternalServerError
	return e
}

// PastNotKept is a table whose past cannot be read.
func PastNotKept(table string) *Error {
	return fault("PointInTimeRecoveryUnavailableException", "The past of table '%s' is not kept: enable point-in-time recovery, or a stream for the last 24 hours", table)
}

// PastOutOfRange is a second at which a table's past cannot be read.
func PastOutOfRange(at, earliest, latest time.Time) *Error {
	text := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	return fault("InvalidRestoreTimeException", "The past at %s cannot be read: what is kept is from %s to %s", text(at), text(earliest), text(latest))
}

// PastNotRead is a request to the past that must be sent again.
func PastNotRead(format string, args ...any) *Error {
	return fault("PastNotReadException", format, args...)
}
