package runtoken_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// ring holds keys in memory. The last one is current.
type ring struct {
	keys []runtoken.Key
	err  error
	find int // how often a key was looked for
}

func (r *ring) Current(context.Context) (runtoken.Key, error) {
	if r.err != nil {
		return runtoken.Key{}, r.err
	}
	return r.keys[len(r.keys)-1], nil
}

func (r *ring) Find(_ context.Context, id runtoken.KeyID) (runtoken.Key, bool, error) {
	r.find++
	if r.err != nil {
		return runtoken.Key{}, false, r.err
	}
	i := slices.IndexFunc(r.keys, func(k runtoken.Key) bool { return k.ID == id })
	if i < 0 {
		return runtoken.Key{}, false, nil
	}
	return r.keys[i], true, nil
}

// clock is set by tests.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

var (
	start   = time.Date(2026, time.May, 4, 10, 0, 0, 0, time.UTC)
	testKey = runtoken.RestoreKey(runtoken.KeyID{1, 2, 3, 4}, runtoken.Secret{5, 6, 7}, start)
	aRun    = run.Ref{Source: "acme", SkillID: "acme/forecast", Version: "1.2.3", ExecutionID: "exec-42", Accepted: time.UnixMilli(1795000000123).UTC(), NotBefore: time.UnixMilli(1795000030123).UTC()}
)

const principal = "alice"

const block runtoken.Block = "https://acme.example"

// blocks returns the block of one source.
func blocks(source string) runtoken.Block {
	if source == aRun.Source {
		return block
	}
	return ""
}

func newSealer() (*runtoken.Sealer, *ring, *clock) {
	keys, now := &ring{keys: []runtoken.Key{testKey}}, &clock{start}
	return runtoken.New(keys, runtoken.Lifetime, now.now), keys, now
}

func mustSeal(tb testing.TB, s *runtoken.Sealer, ref run.Ref, principal string) string {
	tb.Helper()
	token, err := s.Seal(tb.Context(), ref, block, principal)
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

// refuse checks that a token is refused with the same error as every other one.
func refuse(tb testing.TB, s *runtoken.Sealer, what, token, principal string) {
	tb.Helper()
	ref, err := s.Open(tb.Context(), token, blocks, principal)
	if err != runtoken.ErrInvalid || ref != (run.Ref{}) { // the same error value, so that refusals can't be told apart
		tb.Errorf("%s: %+v, error %v", what, ref, err)
	}
}

// written returns a plaintext as the package documentation describes it.
func written(expiry time.Time, block runtoken.Block, fields ...string) []byte {
	digest := sha256.Sum256([]byte(block))
	plain := binary.BigEndian.AppendUint64(nil, uint64(expiry.Unix()))
	plain = binary.BigEndian.AppendUint64(plain, uint64(aRun.Accepted.UnixMilli()))
	plain = binary.BigEndian.AppendUint64(plain, uint64(aRun.NotBefore.UnixMilli()))
	plain = append(plain, digest[:16]...)
	for _, field := range fields {
		plain = append(binary.BigEndian.AppendUint16(plain, uint16(len(field))), field...)
	}
	return plain
}

// encrypted returns a token of any plaintext.
func encrypted(tb testing.TB, plain []byte, principal string) string {
	tb.Helper()
	return encryptedAs(tb, 3, plain, principal)
}

// encryptedAs returns a token of any plaintext and version.
func encryptedAs(tb testing.TB, version byte, plain []byte, principal string) string {
	tb.Helper()
	secret := testKey.Secret()
	aead, err := chacha20poly1305.NewX(secret[:])
	if err != nil {
		tb.Fatal(err)
	}
	head := append([]byte{version}, testKey.ID[:]...)
	nonce := bytes.Repeat([]byte{9}, chacha20poly1305.NonceSizeX)
	return base64.RawURLEncoding.EncodeToString(aead.Seal(slices.Concat(head, nonce), nonce, plain, append(head, principal...)))
}

func TestRoundTrip(t *testing.T) {
	s, _, now := newSealer()
	long := strings.Repeat("x", 512)
	for name, ref := range map[string]run.Ref{
		"usual":          aRun,
		"no version":     {Source: "acme", SkillID: "acme/forecast", ExecutionID: "exec-42"},
		"odd characters": {Source: "acme", SkillID: "\x00é\xff", Version: "1\n", ExecutionID: "../?#%"},
		"long":           {Source: "acme", SkillID: long, Version: long, ExecutionID: long},
	} {
		for _, principal := range []string{"", "alice", "anonymous", strings.Repeat("p", 1000)} {
			token := mustSeal(t, s, ref, principal)
			if len(token) > runtoken.MaxToken || strings.Trim(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
				t.Errorf("%s: token %q", name, token)
			}
			for _, age := range []time.Duration{0, runtoken.Lifetime - time.Second, -runtoken.Skew} {
				now.Time = start.Add(age)
				if got, err := s.Open(t.Context(), token, blocks, principal); err != nil || got != ref {
					t.Errorf("%s, after %v: %+v, error %v", name, age, got, err)
				}
			}
			now.Time = start
		}
	}
}

// TestFormat: Seal and Open use the documented format.
func TestFormat(t *testing.T) {
	s, _, _ := newSealer()
	data, err := base64.RawURLEncoding.DecodeString(mustSeal(t, s, aRun, principal))
	if err != nil {
		t.Fatal(err)
	}
	secret := testKey.Secret()
	aead, err := chacha20poly1305.NewX(secret[:])
	if err != nil {
		t.Fatal(err)
	}
	plain, err := aead.Open(nil, data[5:29], data[29:], append(slices.Clone(data[:5]), principal...))
	want := written(start.Add(24*time.Hour), block, "acme", "acme/forecast", "1.2.3", "exec-42")
	if err != nil || !bytes.Equal(plain, want) || !bytes.Equal(data[:5], []byte{3, 1, 2, 3, 4}) {
		t.Errorf("%q (error %v), want %q", plain, err, want)
	}
	if ref, err := s.Open(t.Context(), encrypted(t, want, principal), blocks, principal); err != nil || ref != aRun {
		t.Errorf("%+v, error %v", ref, err)
	}
}

// TestTokensDiffer: tokens of equal runs differ and do not contain the texts.
func TestTokensDiffer(t *testing.T) {
	s, _, _ := newSealer()
	one, two := mustSeal(t, s, aRun, principal), mustSeal(t, s, aRun, principal)
	if one == two || one[:6] != two[:6] || one[7:39] == two[7:39] {
		t.Errorf("%s\n%s", one, two)
	}
	data, _ := base64.RawURLEncoding.DecodeString(one)
	for _, known := range []string{aRun.ExecutionID, aRun.SkillID, principal, string(block)} {
		if bytes.Contains(data, []byte(known)) {
			t.Errorf("%q shows in %q", known, data)
		}
	}
}

func TestMutations(t *testing.T) {
	s, _, _ := newSealer()
	token := mustSeal(t, s, aRun, principal)
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		for bit := range 8 {
			flipped := slices.Clone(data)
			flipped[i] ^= 1 << bit
			refuse(t, s, fmt.Sprintf("bit %d of byte %d flipped", bit, i), base64.RawURLEncoding.EncodeToString(flipped), principal)
		}
	}
	for n := range data {
		refuse(t, s, fmt.Sprintf("the first %d bytes", n), base64.RawURLEncoding.EncodeToString(data[:n]), principal)
	}
	for n := range token {
		refuse(t, s, fmt.Sprintf("the first %d characters", n), token[:n], principal)
	}
	for i := range len(token) + 1 {
		for _, extra := range []string{"\n", "\r", "=", "A", " ", "\x00", "+", "é"} {
			refuse(t, s, fmt.Sprintf("%q at %d", extra, i), token[:i]+extra+token[i:], principal)
		}
	}
	for i := range token {
		refuse(t, s, fmt.Sprintf("character %d replaced", i), token[:i]+"\n"+token[i+1:], principal)
	}
	for what, other := range map[string]string{
		"nothing": "", "padded": token + "==", "twice": token + token, "too long": strings.Repeat("A", 1<<20),
		"standard encoding": base64.RawStdEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, 100)),
	} {
		refuse(t, s, what, other, principal)
	}
}

// TestCanonical: for two lengths out of three, the last character of a token has unused bits,
// which must be zero.
func TestCanonical(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	s, _, _ := newSealer()
	for _, id := range []string{"x", "xx", "xxx"} {
		ref := aRun
		ref.ExecutionID = id
		token := mustSeal(t, s, ref, principal)
		for _, last := range alphabet {
			if other := token[:len(token)-1] + string(last); other != token {
				refuse(t, s, "another last character", other, principal)
			}
		}
	}
}

func TestTooLongIsNotDecoded(t *testing.T) {
	s, keys, _ := newSealer()
	refuse(t, s, "too long", encrypted(t, written(start.Add(time.Hour), block, "acme", strings.Repeat("x", 4000), "1", "e"), principal), principal)
	if keys.find != 0 {
		t.Error("a key was looked for")
	}
}

func TestBinding(t *testing.T) {
	s, _, _ := newSealer()
	token := mustSeal(t, s, aRun, principal)
	for _, other := range []string{"", "anonymous", "Alice", "alice ", "alic", "alice\x00", "lice", "\x04alice"} {
		refuse(t, s, fmt.Sprintf("principal %q", other), token, other)
	}
	refuse(t, s, "an anonymous token for a principal", mustSeal(t, s, aRun, ""), "anonymous")
	for _, other := range []runtoken.Block{"", block + "/", "https://beta.example"} {
		ref, err := s.Open(t.Context(), token, func(source string) runtoken.Block {
			if source != aRun.Source {
				t.Errorf("asked about %q", source)
			}
			return other
		}, principal)
		if err != runtoken.ErrInvalid || ref != (run.Ref{}) {
			t.Errorf("block %q: %+v, error %v", other, ref, err)
		}
	}
	// A source that was removed has an empty block, which must match no token.
	refuse(t, s, "no block", encrypted(t, written(start.Add(time.Hour), "", "gone", "acme/forecast", "1", "e"), principal), principal)
}

// TestPrincipalDoesNotRunOver moves bytes between the principal and the data before it.
func TestPrincipalDoesNotRunOver(t *testing.T) {
	s, keys, _ := newSealer()
	data, err := base64.RawURLEncoding.DecodeString(mustSeal(t, s, aRun, principal))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < 5; n++ {
		// Version and key id are shortened, and the missing bytes are put before the principal.
		head := string(data[5-n : 5])
		moved := base64.RawURLEncoding.EncodeToString(slices.Concat(data[:5-n], data[5:]))
		refuse(t, s, fmt.Sprintf("%d bytes of the head moved", n), moved, head+principal)
	}
	for n := 1; n <= len(principal); n++ {
		id := runtoken.KeyID([]byte(principal + "....")[:4])
		keys.keys = append(keys.keys, runtoken.RestoreKey(id, testKey.Secret(), start))
		moved := base64.RawURLEncoding.EncodeToString(slices.Concat(data[:5], []byte(principal[:n]), data[5:]))
		refuse(t, s, fmt.Sprintf("%d characters of the principal moved", n), moved, principal[n:])
	}
}

func TestExpiry(t *testing.T) {
	s, _, now := newSealer()
	token := mustSeal(t, s, aRun, principal)
	for age, valid := range map[time.Duration]bool{
		0: true, 24*time.Hour - time.Second: true, 24*time.Hour - time.Nanosecond: true, 24 * time.Hour: false, 24*time.Hour + time.Second: false, 100 * 365 * 24 * time.Hour: false,
		-time.Minute: true, -time.Hour: true, 24*time.Hour - runtoken.MaxLifetime - runtoken.Skew: true, 24*time.Hour - runtoken.MaxLifetime - runtoken.Skew - time.Second: false, -20 * 365 * 24 * time.Hour: false,
	} {
		now.Time = start.Add(age)
		if !valid {
			refuse(t, s, fmt.Sprintf("after %v", age), token, principal)
			continue
		}
		if ref, err := s.Open(t.Context(), token, blocks, principal); err != nil || ref != aRun {
			t.Errorf("after %v: %+v, error %v", age, ref, err)
		}
	}
	now.Time = start
	for _, expiry := range []int64{0, 1, -1, -1 << 63, 1<<63 - 1} {
		refuse(t, s, fmt.Sprintf("expiry %d", expiry), encrypted(t, written(time.Unix(expiry, 0), block, "acme", "acme/forecast", "1", "e"), principal), principal)
	}
}

func TestKeys(t *testing.T) {
	s, keys, now := newSealer()
	old := mustSeal(t, s, aRun, principal)
	keys.keys = append(keys.keys, runtoken.NewKey(now.Time))
	fresh := mustSeal(t, s, aRun, principal)
	for _, token := range []string{old, fresh} {
		if ref, err := s.Open(t.Context(), token, blocks, principal); err != nil || ref != aRun {
			t.Errorf("%+v, error %v", ref, err)
		}
	}
	keys.keys = keys.keys[1:]
	refuse(t, s, "the key is gone", old, principal)
	keys.keys[0] = runtoken.RestoreKey(keys.keys[0].ID, runtoken.Secret{1}, start)
	refuse(t, s, "another key of the same id", fresh, principal)
	keys.keys[0] = runtoken.Key{ID: keys.keys[0].ID}
	if _, err := s.Open(t.Context(), fresh, blocks, principal); err == nil || errors.Is(err, runtoken.ErrInvalid) {
		t.Errorf("a key without a secret opens: error %v", err)
	}
	if token, err := s.Seal(t.Context(), aRun, block, principal); err == nil {
		t.Errorf("a key without a secret seals: %s", token)
	}

	down := errors.New("the storage is down")
	keys.err = down
	if token, err := s.Seal(t.Context(), aRun, block, principal); !errors.Is(err, down) || token != "" {
		t.Errorf("%q, error %v", token, err)
	}
	if ref, err := s.Open(t.Context(), fresh, blocks, principal); !errors.Is(err, down) || errors.Is(err, runtoken.ErrInvalid) || ref != (run.Ref{}) {
		t.Errorf("%+v, error %v: the agent may try again", ref, err)
	}
}

func TestUnsealable(t *testing.T) {
	s, keys, _ := newSealer()
	keys.err = errors.New("asked for a key")
	for name, c := range map[string]struct {
		change func(*run.Ref)
		block  runtoken.Block
	}{
		"no block":          {func(*run.Ref) {}, ""},
		"no source":         {func(r *run.Ref) { r.Source = "" }, block},
		"no skill":          {func(r *run.Ref) { r.SkillID = "" }, block},
		"no execution":      {func(r *run.Ref) { r.ExecutionID = "" }, block},
		"long execution id": {func(r *run.Ref) { r.ExecutionID = strings.Repeat("x", 3000) }, block},
		"very long version": {func(r *run.Ref) { r.Version = strings.Repeat("x", 1<<17) }, block},
	} {
		ref := aRun
		c.change(&ref)
		if token, err := s.Seal(t.Context(), ref, c.block, principal); !errors.Is(err, runtoken.ErrUnsealable) || token != "" {
			t.Errorf("%s: %q, error %v", name, token, err)
		}
	}
}

// TestLongest: the longest run that can be sealed can be opened.
func TestLongest(t *testing.T) {
	s, _, _ := newSealer()
	ref, longest := aRun, 0
	for n := 2900; n < 3000; n++ {
		ref.ExecutionID = strings.Repeat("x", n)
		token, err := s.Seal(t.Context(), ref, block, principal)
		if err != nil {
			break
		}
		longest = len(token)
		if got, err := s.Open(t.Context(), token, blocks, principal); err != nil || got != ref {
			t.Fatalf("%d bytes: error %v", n, err)
		}
	}
	if longest != runtoken.MaxToken {
		t.Errorf("the longest token has %d characters, want %d", longest, runtoken.MaxToken)
	}
}

// TestPlaintextIsReadStrictly: a plaintext that a Sealer would not write is refused, even with
// the right key.
func TestPlaintextIsReadStrictly(t *testing.T) {
	s, _, _ := newSealer()
	good := written(start.Add(time.Hour), block, "acme", "acme/forecast", "1.2.3", "exec-42")
	if ref, err := s.Open(t.Context(), encrypted(t, good, principal), blocks, principal); err != nil || ref != aRun {
		t.Fatalf("%+v, error %v", ref, err)
	}
	for n := range good {
		refuse(t, s, fmt.Sprintf("the first %d bytes", n), encrypted(t, good[:n], principal), principal)
	}
	for _, version := range []byte{0, 1, 2, 4, 255} {
		refuse(t, s, fmt.Sprintf("version %d", version), encryptedAs(t, version, good, principal), principal)
	}
	refuse(t, s, "one byte more", encrypted(t, append(slices.Clone(good), 0), principal), principal)
	refuse(t, s, "one text more", encrypted(t, written(start.Add(time.Hour), block, "acme", "acme/forecast", "1.2.3", "exec-42", ""), principal), principal)
}

// TestSecretsAreNotPrinted: no formatting of a key shows its secret.
func TestSecretsAreNotPrinted(t *testing.T) {
	secret := runtoken.Secret(bytes.Repeat([]byte("S3cr"), 8))
	key := runtoken.RestoreKey(runtoken.KeyID{1, 2, 3, 4}, secret, start)
	type deep struct{ keys []runtoken.Key }
	var printed bytes.Buffer
	for _, value := range []any{key, &key, []runtoken.Key{key}, map[string]runtoken.Key{"k": key}, deep{[]runtoken.Key{key}}, &deep{[]runtoken.Key{key}}, secret, &secret} {
		fmt.Fprintf(&printed, "%v %+v %#v %s %q %x %X\n", value, value, value, value, value, value, value)
		slog.New(slog.NewTextHandler(&printed, nil)).Info("text", "key", value)
		slog.New(slog.NewJSONHandler(&printed, nil)).Info("json", "key", value)
		data, err := json.Marshal(value)
		if err == nil {
			printed.Write(data)
		}
	}
	got := strings.ToLower(printed.String())
	for _, form := range []string{"s3cr", fmt.Sprintf("%x", "S3cr"), fmt.Sprintf("%x", fmt.Sprintf("%x", "S3cr")), "83 51 99 114", "83,51,99,114", "0x53, 0x33", strings.ToLower(base64.StdEncoding.EncodeToString(secret[:9]))} {
		if strings.Contains(got, form) {
			t.Errorf("the secret is printed as %q in\n%s", form, printed.String())
		}
	}
	if key.String() != "run token key 01020304" || fmt.Sprintf("%#v", key) != key.String() || key.Secret() != secret {
		t.Errorf("%s", key)
	}
}

func TestNewKeysDiffer(t *testing.T) {
	one, two := runtoken.NewKey(start), runtoken.NewKey(start)
	if one.ID == two.ID || one.Secret() == two.Secret() || one.Secret() == (runtoken.Secret{}) || !one.Made.Equal(start) {
		t.Errorf("%s %s", one, two)
	}
}
