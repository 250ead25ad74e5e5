package callers

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

const (
	aliceKey = "alice-key-6f1d0c2b9a7e4d58"
	otherKey = "other-key-0b8e7a6d5c4f3e21"
)

func line(t *testing.T, principal, key string) string {
	t.Helper()
	text, err := Line(principal, key)
	if err != nil {
		t.Fatal(err)
	}
	return text + "\n"
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

// authenticate returns the principal of a request by its key.
func authenticate(f *File, header http.Header) (principal string, sent bool) {
	key, sent := Token(header)
	return f.Principal(key), sent
}

// open writes and opens a file.
func open(t *testing.T, text string) (*File, string, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	path := filepath.Join(t.TempDir(), "callers")
	write(t, path, text)
	f, err := Open(path, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	return f, path, logs
}

func TestAuthenticate(t *testing.T) {
	upper := strings.ToUpper(strings.Fields(line(t, "x", "a key of bob"))[1])
	f, _, logs := open(t, "# keys\n\n  "+line(t, "alice", aliceKey)+strings.TrimSpace(line(t, "alice", otherKey))+" # laptop\r\n\tbob\t"+upper)
	for _, c := range []struct {
		about     string
		header    http.Header
		principal string
		sent      bool
	}{
		{"no field", http.Header{}, "", false},
		{"another scheme", http.Header{"Authorization": {"Basic " + aliceKey}}, "", false},
		{"a key", bearer(aliceKey), "alice", true},
		{"the second key", bearer(otherKey), "alice", true},
		{"a hash in upper case, and a key with spaces", bearer("a key of bob"), "bob", true},
		{"the scheme in lower case", http.Header{"Authorization": {"bearer  " + aliceKey + " "}}, "alice", true},
		{"no key", http.Header{"Authorization": {"Bearer"}}, "", true},
		{"an empty key", bearer(""), "", true},
		{"the beginning of a key", bearer(aliceKey[:20]), "", true},
		{"a hash", bearer(strings.Fields(line(t, "x", aliceKey))[1]), "", true},
		{"a long key", bearer(strings.Repeat("k", maxKeySize+1)), "", true},
		{"two fields", http.Header{"Authorization": {"Bearer " + aliceKey, "Bearer " + aliceKey}}, "", true},
	} {
		if principal, sent := authenticate(f, c.header); principal != c.principal || sent != c.sent {
			t.Errorf("%s: %q, %t; want %q, %t", c.about, principal, sent, c.principal, c.sent)
		}
	}
	if logs.Len() > 0 {
		t.Errorf("%v", logs.All())
	}
}

func TestWrongFiles(t *testing.T) {
	hash := strings.Fields(line(t, "x", aliceKey))[1]
	for text, want := range map[string]string{
		"alice":                               ":1: has 1 words",
		"\n# comment\nalice " + aliceKey:      ":3: the second word is not the SHA-256 of a key, which has 64 hexadecimal digits",
		"alice " + hash + "00":                ":1: the second word is not",
		"alice " + hash[:62] + "zz":           ":1: the second word is not",
		"alice " + hash + " laptop":           ":1: has 3 words",
		"Jane Doe " + hash:                    ":1: has 3 words",
		line(t, "alice", "")[:70]:             ":1: the second word is the SHA-256 of an empty key",
		"a " + hash + "\nb " + hash:           ":2: has the same key as line 1",
		"\ufeffalice " + hash:                 ":1: the principal has an invisible character",
		"al\x00ice " + hash:                   ":1: the principal has an invisible character",
		"\xff " + hash:                        ":1: the principal is not valid UTF-8",
		strings.Repeat("a", 257) + " " + hash: ":1: the principal is longer than 256 bytes",
	} {
		path := filepath.Join(t.TempDir(), "callers")
		write(t, path, text)
		_, err := Open(path, zap.NewNop())
		if err == nil || !strings.HasPrefix(err.Error(), path+want) {
			t.Errorf("%q: %v", text, err)
		} else if strings.Contains(err.Error(), aliceKey) {
			t.Errorf("the error shows what may be a key: %v", err)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := Open(missing, zap.NewNop()); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("%v", err)
	}
	folder := t.TempDir()
	if _, err := Open(folder, zap.NewNop()); err == nil || err.Error() != "read "+folder+": is not a regular file" {
		t.Errorf("%v", err)
	}
}

// A file that changes is read again after a second. While it is wrong or missing, the earlier keys remain valid.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, path, logs := open(t, line(t, "alice", aliceKey))
		expect := func(about, alice, other string, levels ...string) {
			t.Helper()
			for key, want := range map[string]string{aliceKey: alice, otherKey: other} {
				if got := f.Principal(key); got != want {
					t.Errorf("%s: %s is the key of %q, want %q", about, key, got, want)
				}
			}
			got := logs.TakeAll()
			if len(got) != len(levels) {
				t.Fatalf("%s: %v, want %v", about, got, levels)
			}
			for i, want := range levels {
				if text := got[i].Level.String() + " " + got[i].Message; !strings.HasPrefix(text, want) {
					t.Errorf("%s: %s, want %s", about, text, want)
				}
			}
		}
		both := line(t, "alice", aliceKey) + line(t, "bob", otherKey)
		write(t, path, both)
		expect("at once", "alice", "")
		time.Sleep(interval)
		expect("after a second", "alice", "bob", "info callers_file has changed")
		time.Sleep(interval)
		expect("unchanged", "alice", "bob")

		write(t, path, line(t, "bob", otherKey)+"mallory\n")
		time.Sleep(interval)
		expect("a wrong line", "alice", "bob", "error callers_file can't be read")
		time.Sleep(interval)
		expect("the same wrong line", "alice", "bob")

		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(interval)
		expect("missing", "alice", "bob", "error callers_file can't be read")
		time.Sleep(interval)
		expect("still missing", "alice", "bob")

		write(t, path+".new", line(t, "carol", otherKey))
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(interval)
		expect("another file", "", "carol", "info callers_file has changed")

		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, line(t, "clara", otherKey))
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(interval)
		expect("a file of the same size and time", "", "clara", "info callers_file has changed")

		write(t, path, "# none\n")
		if err := os.Chmod(path, 0o606); err != nil {
			t.Fatal(err)
		}
		time.Sleep(interval)
		expect("no keys", "", "", "info callers_file has changed", "warn callers_file has no key", "warn every user of this machine can write")
	})
}

func TestKeys(t *testing.T) {
	if a, b := NewKey(), NewKey(); a == b || CheckKey(a) != nil {
		t.Errorf("%s, %s", a, b)
	}
	for _, key := range []string{"", "short", strings.Repeat("x", 21), strings.Repeat("x", maxKeySize+1), "a key with spaces in it is wrong", "a-key-with-a-line-end-x\n"} {
		if CheckKey(key) == nil {
			t.Errorf("%.30q is accepted", key)
		}
	}
	for _, principal := range []string{"", "Jane Doe", "#jane", "jane\n", "\u200bjane"} {
		if _, err := Line(principal, NewKey()); err == nil {
			t.Errorf("%q is accepted", principal)
		}
	}
}

// FuzzParse: any text is an error with a line, or keys of which each is found.
func FuzzParse(f *testing.F) {
	f.Add("alice 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae # foo\n")
	f.Add("# a\n\nb c d\n")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := parse(text)
		if err != nil {
			if n, _, ok := strings.Cut(err.Error(), ": "); !ok || strings.Trim(n, "0123456789") != "" {
				t.Errorf("%q has no line", err)
			}
			return
		}
		for _, o := range k {
			if o.principal == "" || checkPrincipal(o.principal) != nil {
				t.Errorf("%+v", o)
			}
		}
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	k := keys{}
	if err := k.add(strings.Fields("alice "+strings.Repeat("ab", 32)), 1); err != nil {
		b.Fatal(err)
	}
	f := &File{opened: time.Now()}
	f.looked.Store(int64(time.Hour))
	f.keys.Store(&k)
	header := bearer(aliceKey)
	b.ReportAllocs()
	for b.Loop() {
		authenticate(f, header)
	}
}
