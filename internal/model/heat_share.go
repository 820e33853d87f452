package model

// MeanShare returns the share of the limit at the rates of the patterns, where
// Share is that at their peaks.
func (x *Partition) MeanShare(m *Model) float64 {
	mean, peak := 0.0, 0.0
	for _, p := range m.Patterns {
		at := x.by[p.Name]
		if at == 0 || p.PeakRate().PerSecond == 0 {
			continue
		}
		peak += at
		mean += at * p.Rate.PerSecond / p.PeakRate().PerSecond
	}
	if peak == 0 {
		return 0
	}
	return x.Share * mean / peak
}
