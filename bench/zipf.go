package main

import (
	"math"
	"math/rand/v2"
)

// zipfSkew is YCSB's exponent: of 100,000 items, the hundred most frequent get
// 41 % of the requests.
const zipfSkew = 0.99

// zipf draws numbers below n with a Zipf distribution. It follows Gray et al.,
// "Quickly generating billion-record synthetic databases" (1994):
// after a sum over n, each draw takes constant time.
type zipf struct {
	n                      uint64
	zeta, alpha, eta, half float64
}

func newZipf(n int) *zipf {
	z := &zipf{n: uint64(n), alpha: 1 / (1 - zipfSkew), half: 1 + math.Pow(0.5, zipfSkew)}
	for i := 1; i <= n; i++ {
		z.zeta += 1 / math.Pow(float64(i), zipfSkew)
	}
	z.eta = (1 - math.Pow(2/float64(n), 1-zipfSkew)) / (1 - z.half/z.zeta)
	return z
}

// rank draws a rank; 0 is the most frequent one.
func (z *zipf) rank(r *rand.Rand) uint64 {
	u := r.Float64()
	switch uz := u * z.zeta; {
	case uz < 1:
		return 0
	case uz < z.half:
		return min(1, z.n-1)
	}
	return min(uint64(float64(z.n)*math.Pow(z.eta*u-z.eta+1, z.alpha)), z.n-1)
}

// item draws a number. Frequent numbers are not adjacent: ranks are spread by
// multiplication with a prime, which maps ranks to numbers one to one.
func (z *zipf) item(r *rand.Rand) int {
	const prime = 2_654_435_761
	return int(z.rank(r) * prime % z.n)
}
