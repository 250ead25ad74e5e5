package polling_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// FuzzHistory gives a history content with a good checksum.
func FuzzHistory(f *testing.F) {
	good, _ := taught(f, 0, nine[4], 3, newRandom(1)).History().MarshalBinary()
	f.Add(good[:len(good)-4])
	f.Add([]byte("h1\x00"))
	f.Fuzz(func(t *testing.T, content []byte) {
		var h polling.History
		_ = h.UnmarshalBinary(content)
		data := sealed(content)
		if h.UnmarshalBinary(data) != nil {
			return
		}
		again, err := h.MarshalBinary()
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("%q became %q, error %v", data, again, err)
		}
		h.Add(polling.Completion{Execution: time.Second, Ended: 2 * time.Second, Polls: 1})
		for _, at := range polling.NewSchedule(&h, 0).Times() {
			if at <= 0 {
				t.Errorf("a poll after %v", at)
			}
		}
	})
}

// FuzzBook gives a book content with a good checksum.
func FuzzBook(f *testing.F) {
	book := shelf(f, 0, newRandom(1))
	learn(book.Learner(skill("acme", 1)), time.Second, 2)
	good := book.Save()
	f.Add(good[:len(good)-4])
	f.Add([]byte("b1"))
	f.Fuzz(func(t *testing.T, content []byte) {
		_ = polling.NewBook(polling.Config{}).Load(content)
		book := polling.NewBook(polling.Config{Skills: 3, Run: func(f func()) { f() }})
		if book.Load(sealed(content)) != nil {
			return
		}
		if n := book.Skills(); n > 3 {
			t.Errorf("%d skills", n)
		}
		if err := polling.NewBook(polling.Config{}).Load(book.Save()); err != nil {
			t.Errorf("what it stores is refused: %v", err)
		}
	})
}
