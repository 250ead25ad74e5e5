package publish

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// A document from a URL is read again and again. The log repeats what is left out of it only if the document has changed.
func TestUnchangedDocumentIsNotLogged(t *testing.T) {
	title, reads := "Pets", 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads++
		_, _ = fmt.Fprintf(w, `{"openapi":"3.1.0","info":{"title":%q,"version":"1"},"paths":{"/a":{"get":1}}}`, title)
	}))
	defer server.Close()
	h := &Handler{OpenAPI: []Document{{Location: server.URL, Include: []string{"*"}}}}
	l := h.newDocuments("pets")
	core, logs := observer.New(zap.InfoLevel)
	for i, want := range []int{1, 1, 2, 2} {
		if i == 2 {
			title = "Other Pets"
		}
		l.sources[0].due = time.Now()
		l.refresh(t.Context(), http.DefaultTransport, zap.New(core))
		if n := logs.FilterMessage("an operation is not published").Len(); n != want || reads != i+1 {
			t.Errorf("read %d: %d lines after %d reads, want %d: %v", i, n, reads, want, logs.All())
		}
	}
}
