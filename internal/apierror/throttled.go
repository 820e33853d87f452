package apierror

// Throttled is a request that admission control rejected. Clients retry after
// a pause.
func Throttled() *Error {
	return fault("ThrottlingException", "Rate of requests exceeds the allowed throughput.")
}
