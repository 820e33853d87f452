package batch

import "sync"

// progressCounter counts the work of all workers and reports it every few thousand items.
type progressCounter struct {
	report func(Progress)
	mutex  sync.Mutex
	now    Progress
	last   int64
}

const reportEvery = 2000

func (t *progressCounter) stage(name string, total int64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.now, t.last = Progress{Stage: name, Total: total}, 0
	t.send()
}

func (t *progressCounter) add(n int64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.now.Done += n
	if t.now.Done-t.last >= reportEvery || t.now.Done == t.now.Total {
		t.last = t.now.Done
		t.send()
	}
}

func (t *progressCounter) send() {
	if t.report != nil {
		t.report(t.now)
	}
}
