package exchange_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Memory is reused when its owner and all readers have left it, not before. Whoever reads later gets an error, not another's text.
func TestMemory(t *testing.T) {
	const size = 100 << 10
	first, second := bytes.Repeat([]byte("a"), size), bytes.Repeat([]byte("b"), size)
	m := exchange.BorrowMemory(size)
	m.Text = append(m.Text, first...)
	var r exchange.Request
	r.ReadFrom(m)
	again, err := r.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	half := make([]byte, size/2)
	if _, err := io.ReadFull(r.Body, half); err != nil {
		t.Fatal(err)
	}
	m.Release()
	_ = r.Body.Close()
	_ = r.Body.Close() // has no effect
	other := exchange.BorrowMemory(size)
	other.Text = append(other.Text, second...)
	if got, err := io.ReadAll(again); err != nil || !bytes.Equal(got, first) {
		t.Errorf("%.10s…: %v", got, err)
	}
	_ = again.Close()
	reused := exchange.BorrowMemory(size)
	reused.Text = append(reused.Text, second...)
	for _, body := range []io.Reader{r.Body, again} {
		if n, err := body.Read(half); n > 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("%d bytes of %.10s…: %v", n, half, err)
		}
	}
	if body, err := r.GetBody(); err == nil {
		t.Errorf("%T of a text that is no longer there", body)
	}
}

// Small and very large bodies have memory of their own, which is nothing to read from or to release.
func TestNoMemory(t *testing.T) {
	for _, size := range []int{100, 3 << 20} {
		m := exchange.BorrowMemory(size)
		var r exchange.Request
		r.ReadFrom(m)
		if m.Release(); m != nil || r.Body != nil {
			t.Errorf("%d bytes", size)
		}
	}
}
