package front

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stator-db/stator/apps/internal/browsertest"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// No page is wider than a phone, and the reason of a dead task is within the screen.
func TestPagesFitAPhone(t *testing.T) {
	url, c, _ := start(t)
	ctx := browsertest.Open(t)
	in, err := c.Submit(t.Context(), "a-queue-with-quite-a-long-name", task.Submission{Type: "a-type-with-a-long-name", MaxAttempts: 1, Key: strings.Repeat("k", 100)})
	if err != nil {
		t.Fatal(err)
	}
	claim, err := c.ClaimTask(t.Context(), in.ID, task.ClaimRequest{Worker: "worker-with-a-long-name-of-a-machine.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Fail(t.Context(), claim, task.Report{Reason: "no route to host " + strings.Repeat("x", 200)}); err != nil {
		t.Fatal(err)
	}
	paths := []string{"/", "/tasks", "/tasks?status=DEAD", "/queues/" + in.Queue + "?status=DEAD", "/tasks/" + in.ID, "/tasks/nonsense"}
	browsertest.FitsAPhone(ctx, t, url, paths, func(path string) {
		// A cell beyond the edge, which wraps, would make its row tall for no reason that is seen.
		hidden, err := chromedp.Run(ctx, chromedp.Evaluate[string](`[...document.querySelectorAll("td")].filter((cell) => cell.getBoundingClientRect().right > innerWidth).map((cell) => cell.textContent).join(", ")`))
		if err != nil || hidden != "" {
			t.Errorf("on %s these cells are beyond the edge: %s, %v", path, hidden, err)
		}
	})
}

// The page shows events while it is open, without being reloaded.
func TestPageIsLive(t *testing.T) {
	url, c, _ := start(t)
	ctx := browsertest.Open(t)
	if err := chromedp.Do(ctx, chromedp.Navigate(url), chromedp.WaitVisible("#queues")); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`window.here = true`)); err != nil {
		t.Fatal(err)
	}
	in, err := c.Submit(t.Context(), "mail", task.Submission{Type: "send"})
	if err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.WaitVisible(`#queues a[href="/queues/mail"]`), chromedp.WaitVisible(`#recent a[href="/tasks/`+in.ID+`"]`)); err != nil {
		t.Fatalf("the page does not show the task: %v", err)
	}
	if same, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`window.here === true`)); err != nil || !same {
		t.Errorf("the page was reloaded, %v", err)
	}
}
