package capacity

import "testing"

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		bytes                     int
		write, strong, eventually float64
	}{
		{0, 1, 1, 0.5},
		{1, 1, 1, 0.5},
		{1024, 1, 1, 0.5},
		{1025, 2, 1, 0.5},
		{4096, 4, 1, 0.5},
		{4097, 5, 2, 1},
		{8192, 8, 2, 1},
		{8193, 9, 3, 1.5},
		{400 * 1024, 400, 100, 50},
	} {
		if got := Write(c.bytes); got != c.write {
			t.Errorf("Write(%d) = %v, want %v", c.bytes, got, c.write)
		}
		if got := Read(c.bytes, true); got != c.strong {
			t.Errorf("Read(%d, true) = %v, want %v", c.bytes, got, c.strong)
		}
		if got := Read(c.bytes, false); got != c.eventually {
			t.Errorf("Read(%d, false) = %v, want %v", c.bytes, got, c.eventually)
		}
	}
}

func TestConsumed(t *testing.T) {
	var c Consumed
	if c.Total() != 0 {
		t.Errorf("nothing costs %v", c.Total())
	}
	c.Charge("a", true, 1)
	c.Charge("b", false, 0.5)
	c.Charge("a", true, 2)
	c.Add(Consumed{Table: 1.5, Indexes: []IndexUnits{{"b", false, 1}, {"c", true, 4}}})
	want := []IndexUnits{{"a", true, 3}, {"b", false, 1.5}, {"c", true, 4}}
	if c.Table != 1.5 || len(c.Indexes) != 3 || c.Indexes[0] != want[0] || c.Indexes[1] != want[1] || c.Indexes[2] != want[2] {
		t.Errorf("consumed is %+v, want 1.5 and %+v", c, want)
	}
	if c.Total() != 10 {
		t.Errorf("the total is %v, want 10", c.Total())
	}
}

// Each partition that a scan reads is charged separately.
func TestScan(t *testing.T) {
	s := Scan{Consistent: true}
	s.Add(100)
	s.Add(4000)
	if got := s.Units(); got != 2 {
		t.Errorf("one partition with 4,100 bytes costs %v", got)
	}
	s.Enter(2)
	s.Add(1)
	if got := s.Units(); got != 4 {
		t.Errorf("with an empty partition and one with a byte it costs %v", got)
	}
	s = Scan{Partition: 1}
	s.Enter(3)
	if got := s.Units(); got != 1.5 {
		t.Errorf("three empty partitions cost %v", got)
	}
}
