package capacity

// Scan adds up what a scan costs. It reads partition after partition, and each
// is charged separately, also one without items.
type Scan struct {
	Consistent bool
	Partition  int // that is being read

	// Each, if set, is called for each partition before the present one, with its
	// cost.
	Each func(partition int, units float64)

	bytes int
	units float64 // of the partitions before it
}

// Enter continues the scan in a partition.
func (s *Scan) Enter(partition int) {
	for ; s.Partition < partition; s.Partition++ {
		if s.Each != nil {
			s.Each(s.Partition, s.Present())
		}
		s.units += s.Present()
		s.bytes = 0
	}
}

// Add adds an item of the current partition.
func (s *Scan) Add(sizeBytes int) { s.bytes += sizeBytes }

// Present is the cost of the present partition.
func (s *Scan) Present() float64 { return Read(s.bytes, s.Consistent) }

// Units is the cost of the scan so far.
func (s *Scan) Units() float64 { return s.units + s.Present() }
