package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stator-db/stator"
)

// attack tries what a hostile page can do to a server, and returns what it has got.
const attack = `async (base) => {
  const got = [];
  const body = JSON.stringify({ TableName: "Secrets" });
  const target = { "X-Amz-Target": "DynamoDB_20120810.Scan" };
  const tries = {
    "read, simple": () => fetch(base + "api", { method: "POST", body }),
    "read, with cookies": () => fetch(base + "api", { method: "POST", body, credentials: "include" }),
    "read, our header": () => fetch(base + "api", { method: "POST", body, credentials: "include", headers: { ...target, "X-Stator-Console": "write" } }),
    "read, opaque": () => fetch(base + "api", { method: "POST", body, mode: "no-cors", credentials: "include", headers: { "Content-Type": "text/plain" } }),
    "delete, text": () => fetch(base + "api", { method: "POST", mode: "no-cors", body: '{"TableName":"Secrets"}', headers: { "X-Amz-Target": "DynamoDB_20120810.DeleteTable" } }),
    session: () => fetch(base + "api/session", { credentials: "include" }),
    "sign out": () => fetch(base + "api/session", { method: "DELETE", credentials: "include" }),
  };
  for (const [name, attempt] of Object.entries(tries)) {
    try {
      const reply = await attempt();
      const text = reply.type === "opaque" ? "" : await reply.text();
      if (reply.ok || text.includes("hidden") || text.includes("signIn")) got.push(name + ": " + reply.status + " " + text.slice(0, 80));
    } catch {} // refused
  }
  const frame = document.createElement("iframe");
  frame.src = base;
  document.body.append(frame);
  await new Promise((r) => { frame.onload = r; setTimeout(r, 1000); });
  try { if (frame.contentDocument?.body?.innerText.includes("Secrets")) got.push("a frame"); } catch {}
  if (frames.length && frame.contentWindow.length === undefined) got.push("a window");
  await new Promise((r) => { const s = document.createElement("script"); s.onload = () => { got.push("a script"); r(); }; s.onerror = r; s.src = base + "api/session"; document.body.append(s); });
  return got.join("\n");
}`

// A page on another origin cannot read or do anything, not even under a name that resolves to the server.
func TestHostilePages(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(t, "Secrets", "id S")
	s.put(t, "Secrets", item{"id": text("hidden")})
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>evil</title><body>evil</body>")
	}))
	defer evil.Close()
	port := s.url[strings.LastIndex(s.url, ":"):]
	evilPort := evil.URL[strings.LastIndex(evil.URL, ":"):]
	for name, at := range map[string]struct{ page, base string }{
		"another port":          {evil.URL, s.url + "/console/"},
		"another host":          {"http://evil.example" + evilPort, s.url + "/console/"},
		"a name of the server":  {"http://evil.example" + evilPort, "http://rebound.example" + port + "/console/"},
		"the name is rebound":   {"http://rebound.example" + evilPort, "http://rebound.example" + port + "/console/"},
		"localhost by its name": {"http://localhost" + evilPort, s.url + "/console/"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &tab{T: t, ctx: newTab(t), url: at.page}
			if err := chromedp.Do(b.ctx, chromedp.Navigate(at.page), chromedp.WaitReady(chromedp.CSS("body"))); err != nil {
				t.Fatal(err)
			}
			if got := b.run(`return (`+attack+`)($1)`, at.base); got != "" {
				t.Errorf("the page has got: %s", got)
			}
		})
	}
	// With DNS rebinding the page has the origin of the server itself.
	b := &tab{T: t, ctx: newTab(t)}
	if err := chromedp.Do(b.ctx, chromedp.Navigate("http://rebound.example"+port+"/console/"), chromedp.WaitReady(chromedp.CSS("body"))); err != nil {
		t.Fatal(err)
	}
	if got := b.run(`return document.body.innerText`); !strings.Contains(got, "requests for this host are rejected") {
		t.Errorf("under another name the console answers %q", got)
	}
	if got := b.run(`const r = await fetch("/console/api", { method: "POST", body: "{}", headers: { "X-Stator-Console": "write", "X-Amz-Target": "DynamoDB_20120810.ListTables" } }).catch(() => ({ ok: false })); return r.ok ? "yes" : "";`); got != "" {
		t.Error("under another name the console answers requests")
	}
	if got := s.get(t, "Secrets", `{"id":{"S":"hidden"}}`); !strings.Contains(got, "hidden") {
		t.Errorf("the item is %s", got)
	}
}

// writeAccess writes the files of the keys of people, and of the actions that they may do. The key of ada is ADAKEY.
func writeAccess(t *testing.T, dir string, actions map[string][]string) stator.AccessOptions {
	t.Helper()
	o := stator.AccessOptions{Keys: filepath.Join(dir, "keys.yaml"), Policies: filepath.Join(dir, "policies.yaml")}
	keys, policies := "keys:\n", "principals:\n"
	files := map[string]string{}
	for name, allowed := range actions {
		keys += fmt.Sprintf("  - access_key: %sKEY\n    secret: %s-secret-0123456789\n    principal: arn:aws:iam::000000000000:user/%s\n", strings.ToUpper(name), name, name)
		policies += fmt.Sprintf("  - arn: arn:aws:iam::000000000000:user/%[1]s\n    policies: [%[1]s.json]\n", name)
		files[name+".json"] = fmt.Sprintf(`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["%s"], "Resource": "*"}]}`, strings.Join(allowed, `", "`))
	}
	files["keys.yaml"], files["policies.yaml"] = keys, policies
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// People sign in with a key, may do what its policies allow, and are signed out when it is revoked.
func TestSignIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	access, err := stator.OpenAccess(writeAccess(t, dir, map[string][]string{"ada": {"dynamodb:*"}, "bob": {"dynamodb:ListTables"}}))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(o *stator.Options) { o.Access = access })
	b := s.open(t, "")
	b.run(`await t.fill("input[name=accessKey]", "ADAKEY"); await t.fill("input[name=secret]", "wrong"); await t.click("button", "Sign in"); await t.has("This key is not valid");
		await t.fill("input[name=secret]", "ada-secret-0123456789"); await t.click("button", "Sign in"); await t.has("No tables yet");
		if (document.cookie !== "") throw new Error("scripts can read the cookie");
		await t.write(); await t.click("button", "Create table"); await t.fill("input[name=tableName]", "Mine"); await t.fill("dialog .columns input", "id"); await t.click("dialog button.primary", "Create table"); await t.has("No items match");
		await t.click("button", "Sign out"); await t.fill("input[name=accessKey]", "BOBKEY"); await t.fill("input[name=secret]", "bob-secret-0123456789"); await t.click("button", "Sign in");
		await t.go("#/table/Mine/items"); await t.has("AccessDeniedException");`)
	writeAccess(t, dir, map[string][]string{"ada": {"dynamodb:*", "stator:GetModel"}})
	if _, err := access.Reload(); err != nil {
		t.Fatal(err)
	}
	b.run(`await t.go("#/tables"); await t.el("input[name=accessKey]");`)
	// What somebody has typed and opened is not there for the next person.
	b.run(`await t.fill("input[name=accessKey]", "ADAKEY"); await t.fill("input[name=secret]", "ada-secret-0123456789"); await t.click("button", "Sign in"); await t.go("#/model"); await t.choose("input[type=file]", "private.yaml", "model: private"); await t.has("private.yaml");
		await t.go("#/partiql"); await t.fill("textarea", "private"); await t.click("button", "Sign out"); await t.fill("input[name=accessKey]", "ADAKEY"); await t.fill("input[name=secret]", "ada-secret-0123456789"); await t.click("button", "Sign in");
		if ((await t.el("textarea")).value !== "") throw new Error("the statement is still there"); await t.go("#/model"); await t.el("input[type=file]"); await t.rest(); if (document.body.innerText.includes("private")) throw new Error("the model is still there");`)
}

// Settings that somebody may not read are said to be denied, and not shown as off.
func TestDeniedSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	access, err := stator.OpenAccess(writeAccess(t, dir, map[string][]string{"ada": {"*"}}))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(o *stator.Options) { o.Access = access })
	b := s.open(t, "")
	b.run(`window.recovery = () => t.all("label", "recovery to any second")[0]?.querySelector("input");
		await t.fill("input[name=accessKey]", "ADAKEY"); await t.fill("input[name=secret]", "ada-secret-0123456789"); await t.click("button", "Sign in");
		await t.write(); await t.click("button", "Create table"); await t.fill("input[name=tableName]", "Orders"); await t.fill("dialog .columns input", "customer"); await t.click("dialog button.primary", "Create table"); await t.has("No items match");
		await t.go("#/table/Orders/settings"); await t.fill("input[required].mono", "until"); await t.click("button", "Switch on"); await t.has("Items expire at the time in until");
		await t.until(() => !recovery().disabled, "recovery can be switched on"); recovery().click(); await t.until(() => recovery().checked, "recovery is on"); await t.go("#/tables"); await t.has("Orders");`)
	writeAccess(t, dir, map[string][]string{"ada": {"dynamodb:ListTables", "dynamodb:DescribeTable"}})
	if _, err := access.Reload(); err != nil {
		t.Fatal(err)
	}
	b.run(`await t.go("#/table/Orders/settings"); await t.has("protection from deletion"); await t.has("not authorized to perform: dynamodb:DescribeTimeToLive"); await t.has("not authorized to perform: dynamodb:DescribeContinuousBackups");
		if (t.all("button", "Switch on").length || recovery()) throw new Error("what is on is shown as off");`)
}

// The browser sends the cookie of a session to the servers of other ports of the host, too, which may be
// other people's. They cannot use it, and the person is still signed in afterwards.
func TestServersOfOtherPorts(t *testing.T) {
	t.Parallel()
	access, err := stator.OpenAccess(writeAccess(t, t.TempDir(), map[string][]string{"ada": {"dynamodb:*"}}))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(o *stator.Options) { o.Access = access })
	b := s.open(t, "")
	b.run(`await t.fill("input[name=accessKey]", "ADAKEY"); await t.fill("input[name=secret]", "ada-secret-0123456789"); await t.click("button", "Sign in"); await t.has("No tables yet");`)
	got := make(chan string, 100)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Cookie") }))
	defer other.Close()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(other.URL+"/console/api")); err != nil {
		t.Fatal(err)
	}
	cookie := <-got
	if !strings.HasPrefix(cookie, "stator-console-") {
		t.Fatalf("the control: the other server gets the cookie %q", cookie)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"api", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Cookie": cookie, "X-Stator-Console": "read", "Sec-Fetch-Site": "same-origin", "X-Amz-Target": "DynamoDB_20120810.ListTables"} {
		r.Header.Set(name, value)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	reply.Body.Close()
	if reply.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stolen cookie is answered with %s", reply.Status)
	}
	if err := chromedp.Do(b.ctx, chromedp.Navigate(b.url)); err != nil {
		t.Fatal(err)
	}
	b.run(`await t.has("No tables yet");`)
}

// A console that only reads shows no way to change something, and accepts none.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *stator.Options) { o.Console = stator.ConsoleRead })
	s.create(t, "Notes", "id S")
	s.put(t, "Notes", item{"id": text("1")})
	b := s.open(t, "#/table/Notes/items")
	if got := b.run(`await t.rows(1); await t.has("read-only"); if (t.all("button", "New item").length) throw new Error("there is a button for new items");
		const r = await fetch("api", { method: "POST", headers: { "X-Stator-Console": "write", "X-Amz-Target": "DynamoDB_20120810.DeleteTable" }, body: '{"TableName":"Notes"}' }); return r.status;`); got != "403" {
		t.Errorf("deleting a table is answered with %s", got)
	}
}
