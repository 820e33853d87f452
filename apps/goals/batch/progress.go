package batch

import "sync"

// teller counts what all workers do and tells it every few thousand.
type teller struct {
	told  func(Progress)
	mutex sync.Mutex
	now   Progress
	last  int64
}

const tellEvery = 2000

func (t *teller) stage(name string, total int64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.now, t.last = Progress{Stage: name, Total: total}, 0
	t.say()
}

func (t *teller) add(n int64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.now.Done += n
	if t.now.Done-t.last >= tellEvery || t.now.Done == t.now.Total {
		t.last = t.now.Done
		t.say()
	}
}

func (t *teller) say() {
	if t.told != nil {
		t.told(t.now)
	}
}
