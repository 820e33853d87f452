package apierror

// Throttled is a request for which there is no room now. Clients wait a little
// and try again.
func Throttled() *Error {
	return fault("ThrottlingException", "Rate of requests exceeds the allowed throughput.")
}
