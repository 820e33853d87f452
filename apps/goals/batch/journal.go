package batch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// journalName has the version of the files of a work folder: a run that another version
// left begins again.
const journalName = "journal2"

// journal records on disk which steps of a run are done, one per line, with their
// counts. A step is recorded when its effects are durable.
type journal struct {
	mutex sync.Mutex
	file  *os.File
	done  map[string]counts
}

type entry struct {
	Step   string `json:"step"`
	Counts counts `json:"counts"`
}

// counts are the counts of a stage.
type counts struct {
	Customers int64 `json:"customers,omitempty"`
	Rejected  int64 `json:"rejected,omitempty"`
	Outside   int64 `json:"outsideMonth,omitempty"`
	Unowned   int64 `json:"unowned,omitempty"`
}

func openJournal(name string) (*journal, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the run's journal: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another process on this machine is working on this run, in %s: wait for it", filepath.Dir(name)), file.Close())
	}
	j := &journal{file: file, done: make(map[string]counts)}
	var whole int64
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // an incomplete last line: the run was killed while writing it
		}
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("the run's journal %s is damaged: remove the work folder and start again", name)
		}
		whole += int64(len(line))
		j.done[e.Step] = e.Counts
	}
	if err := file.Truncate(whole); err != nil {
		return nil, fmt.Errorf("open the run's journal: %w", err)
	}
	if _, err := file.Seek(whole, 0); err != nil {
		return nil, fmt.Errorf("open the run's journal: %w", err)
	}
	return j, nil
}

func (j *journal) has(step string) (counts, bool) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	n, ok := j.done[step]
	return n, ok
}

func (j *journal) add(step string, n counts) error {
	line, err := json.Marshal(entry{step, n})
	if err != nil {
		return err
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write the run's journal: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("write the run's journal: %w", err)
	}
	j.done[step] = n
	return nil
}

func (j *journal) close() { _ = j.file.Close() }
