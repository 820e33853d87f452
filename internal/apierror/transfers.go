package apierror

// ExportNotFound is an ARN that names no export.
func ExportNotFound() *Error {
	return fault("ExportNotFoundException", "The specified export was not found.")
}

// ExportConflict is a token that was used before with another export.
func ExportConflict() *Error {
	return fault("ExportConflictException", "There was a conflict when writing to the specified S3 bucket.")
}

// InvalidExportTime is a time outside the window that can be exported.
func InvalidExportTime() *Error {
	return fault("InvalidExportTimeException", "The specified ExportTime is outside of the point in time recovery window.")
}

// ImportNotFound is an ARN that names no import.
func ImportNotFound() *Error {
	return fault("ImportNotFoundException", "The specified import was not found.")
}

// ImportConflict is a token that was used before with another import.
func ImportConflict() *Error {
	return fault("ImportConflictException", "There was a conflict when importing from the specified S3 source. "+
		"This can occur when the current import conflicts with a previous import request that had the same client token.")
}
