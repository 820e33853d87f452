package front

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

// The page shows events while it is open, without being reloaded.
func TestPageIsLive(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	url, c, _ := start(t)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU)
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	defer stop()
	ctx, cancel := chromedp.NewContext(ctx)
	defer cancel()
	ctx, late := context.WithTimeout(ctx, 2*time.Minute)
	defer late()
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
