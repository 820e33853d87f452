package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed page
var embedded embed.FS

// document is the file of the page itself. Its references to other files get the digest of them
// all, and it says how people sign in, so that the page need not ask before its first request.
const document = "index.html"

// files are the files of the page. Modules name each other by relative paths, so that the
// digest of all files is in the path of each, and browsers may keep them.
type files struct {
	load func() *loadedFiles // it takes milliseconds, and no server needs it before its first page
}

type loadedFiles struct {
	prefix string // of the paths of all files but the document
	byPath map[string]*pageFile
	page   *pageFile
}

type pageFile struct {
	contentType   string
	plain, packed []byte
}

func newFiles(signIn SignIn) *files {
	return &files{load: sync.OnceValue(func() *loadedFiles { return loadFiles(signIn) })}
}

func loadFiles(signIn SignIn) *loadedFiles {
	l := &loadedFiles{byPath: make(map[string]*pageFile)}
	digest := sha256.New()
	var html string
	err := fs.WalkDir(embedded, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		digest.Write([]byte(name))
		digest.Write(text)
		name = strings.TrimPrefix(name, "page/")
		if name == document {
			html = string(text)
			return nil
		}
		if contentType := contentTypeOf(name); contentType != "" { // licences are not served
			l.byPath[name] = newFile(contentType, text)
		}
		return nil
	})
	if err != nil {
		panic("embedded files of the console: " + err.Error())
	}
	l.prefix = "files-" + hex.EncodeToString(digest.Sum(nil))[:16] + "/"
	l.page = newFile("text/html; charset=utf-8", []byte(strings.NewReplacer("{files}/", l.prefix, "{sign-in}", string(signIn)).Replace(html)))
	return l
}

// contentTypeOf returns the media type of a file that is served; empty for others.
func contentTypeOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return mime.TypeByExtension(".svg")
	}
	return ""
}

func newFile(contentType string, text []byte) *pageFile {
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is valid
	_, _ = z.Write(text)                                       // memory does not fail
	_ = z.Close()
	return &pageFile{contentType: contentType, plain: text, packed: packed.Bytes()}
}

// serve serves a file by its path below Base.
func (f *files) serve(w http.ResponseWriter, r *http.Request, name string) {
	l := f.load()
	name, ours := strings.CutPrefix(name, l.prefix)
	found := l.byPath[name]
	if !ours || found == nil {
		http.NotFound(w, r)
		return
	}
	if isForeign(r.Header.Get("Sec-Fetch-Site")) {
		foreign(w)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	found.send(w, r)
}

func (f *files) servePage(w http.ResponseWriter, r *http.Request) { f.load().page.send(w, r) }

func (f *pageFile) send(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "not allowed", http.StatusMethodNotAllowed)
		return
	}
	h, body := w.Header(), f.plain
	h.Set("Content-Type", f.contentType)
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.packed
	}
	_, _ = w.Write(body)
}
