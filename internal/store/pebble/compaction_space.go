package pebble

import (
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// compactionSpace knows how much space the compactions in progress may need. A compaction
// writes its tables before it frees those that it reads.
//
// A compaction that reads more than is free mostly fails, after it has written all that
// there is space for. It may succeed when it reads deletes. So it is attempted, but after a
// failure no other one to the same level for a while: it fails then when it has written
// nothing.
type compactionSpace struct {
	mu     sync.Mutex
	jobs   map[int]*compactionJob
	files  map[string]*compactionJob // by the path of their tables
	pauses [numLevels]spacePause     // by the level that compactions write to
}

const numLevels = 7

// spacePause is the pause after a large compaction that failed.
type spacePause struct {
	length time.Duration // 0 after a success
	until  time.Time
}

// compactionJob is one compaction.
type compactionJob struct {
	bytes   uint64 // of the tables that it reads
	level   int    // to which it writes
	paths   []string
	decided bool
	large   bool // it reads more than was free
	refused bool
}

const (
	minSpacePause = time.Second
	maxSpacePause = 2 * time.Minute
)

func newCompactionSpace() *compactionSpace {
	return &compactionSpace{jobs: make(map[int]*compactionJob), files: make(map[string]*compactionJob)}
}

// begin records the beginning of a compaction.
func (s *compactionSpace) begin(info pebble.CompactionInfo) {
	job := &compactionJob{level: info.Output.Level}
	for _, level := range info.Input {
		for _, table := range level.Tables {
			job.bytes += table.Size
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[info.JobID] = job
}

// created records a table that a compaction has created.
func (s *compactionSpace) created(info pebble.TableCreateInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job := s.jobs[info.JobID]; job != nil {
		job.paths = append(job.paths, info.Path)
		s.files[info.Path] = job
	}
}

// end records the end of a compaction.
func (s *compactionSpace) end(info pebble.CompactionInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	job := s.jobs[info.JobID]
	if job == nil {
		return
	}
	delete(s.jobs, info.JobID)
	for _, path := range job.paths {
		delete(s.files, path)
	}
	p := &s.pauses[job.level]
	switch {
	case !job.large || job.refused:
	case info.Err == nil:
		*p = spacePause{}
	default:
		p.length = min(max(minSpacePause, 2*p.length), maxSpacePause)
		p.until = time.Now().Add(p.length)
	}
}

// mayWrite reports whether a compaction may write a table, when this much is free for
// compactions. It decides that once for each compaction.
func (s *compactionSpace) mayWrite(path string, free uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	job := s.files[path]
	if job == nil {
		return true
	}
	if !job.decided {
		job.decided, job.large = true, job.bytes > free
		job.refused = job.large && time.Until(s.pauses[job.level].until) > 0
	}
	return !job.refused
}

// pausing reports whether large compactions are not attempted now.
func (s *compactionSpace) pausing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.pauses[:], func(p spacePause) bool { return time.Until(p.until) > 0 })
}

// inProgress reports whether there is a compaction.
func (s *compactionSpace) inProgress() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.jobs) > 0
}

// reset ends the pauses: compactions read more deletes now, such as that of a range, which may be
// most of the data.
func (s *compactionSpace) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.pauses[:])
}
