// Package provider is the provider of the benchmarks. It publishes skills and runs them, with little processor time.
package provider

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// Provider publishes skills and runs them, with little processor time.
type Provider struct {
	origin      string
	index       []byte
	descriptors atomic.Int64
	runs        atomic.Uint64 // started runs
	held        atomic.Int64  // requests that wait for the release
	released    chan struct{}
	release     sync.Once

	// polls counts the polls of each run, up or down. The index is the number of the run modulo the
	// length; fewer runs are active at a time.
	polls [1 << 16]atomic.Int32

	drawing sync.Mutex
	random  *mathrand.Rand
}

// Run runs a provider until the end of its standard input, so that it exits with its parent process.
// The first line of its output has its address, or those of several providers.
func Run(args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("upstream", flag.ContinueOnError)
	providers := flags.Int("providers", 1, "how many providers there are")
	count := flags.Int("skills", 0, "how many skills to publish, only "+Now+" and "+Many)
	h2c := flags.Bool("h2c", false, "understand HTTP/2 without TLS, too")
	certificate := flags.String("tls", "", "speak HTTP/2 with TLS, and write the certificate to this `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	addresses := make([]string, *providers)
	for i := range addresses {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer listener.Close() // at the end of the process
		addresses[i] = listener.Addr().String()
		switch {
		case *certificate != "":
			config, err := selfSigned(*certificate)
			if err != nil {
				return err
			}
			go New("https://"+addresses[i], *count).serveHTTP(tls.NewListener(listener, config)) //nolint:errcheck // runs until the process exits
		case *h2c:
			go New("http://"+addresses[i], *count).serveHTTP(listener) //nolint:errcheck // runs until the process exits
		default:
			go New("http://"+addresses[i], *count).Serve(listener)
		}
	}
	if _, err := fmt.Fprintln(stdout, strings.Join(addresses, " ")); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, stdin)
	return err
}

// selfSigned returns a configuration of TLS with a new certificate for the loopback address, which it writes to a file.
func selfSigned(file string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}, os.WriteFile(file, text, 0o600)
}

// New returns a provider at an origin that publishes a number of skills, or, if that is 0, all but Many.
func New(origin string, count int) *Provider {
	p := &Provider{origin: origin, released: make(chan struct{}), random: mathrand.New(mathrand.NewPCG(1, 2))} //nolint:gosec // no secret
	names := skills(count)
	entries := make([]string, len(names))
	for i, s := range names {
		entries[i] = fmt.Sprintf(`{"id":"bench/%[2]s","name":"Skill","capability_type":"api","description":"Does something.",`+
			`"descriptor_url":"%[1]s/skills/%[2]s","access":"public","version":"1.0.0"}`, origin, s)
	}
	p.index = []byte(`{"protocol":{"version":"1.0.0"},"provider":{"name":"Bench"},"skills":[` + strings.Join(entries, ",") + "]}")
	return p
}

// Serve answers HTTP/1.1 requests.
func (p *Provider) Serve(listener net.Listener) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		go p.serveConnection(c)
	}
}

func (p *Provider) serveConnection(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 16<<10)
	var body, answer []byte
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		_, rest, _ := bytes.Cut(line, []byte(" "))
		path, _, ok := bytes.Cut(rest, []byte(" "))
		if !ok {
			return
		}
		target := string(path) // the next read overwrites the line
		length, err := wire.ReadHeader(r)
		if err != nil || length == wire.Chunked {
			return
		}
		if _, err := r.Discard(length); err != nil {
			return
		}
		var status int
		status, body = p.answer(body[:0], target)
		answer = append(answer[:0], "HTTP/1.1 "...)
		answer = strconv.AppendInt(answer, int64(status), 10)
		answer = append(answer, " \r\nContent-Type: application/json\r\nContent-Length: "...)
		answer = strconv.AppendInt(answer, int64(len(body)), 10)
		answer = append(answer, "\r\n\r\n"...)
		answer = append(answer, body...)
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// serveHTTP answers HTTP/2 and HTTP/1.1 requests. With TLS, the listener decides which.
func (p *Provider) serveHTTP(listener net.Listener) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Protocols: protocols, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1000}, ReadHeaderTimeout: wire.Patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			status, body := p.answer(nil, r.URL.Path)
			w.Header()["Content-Type"] = []string{"application/json"}
			w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
			w.WriteHeader(status)
			_, _ = w.Write(body) //nolint:gosec // JSON, and no browser reads it
		}),
	}
	return server.Serve(listener)
}

// answer appends the body of the answer to a request.
func (p *Provider) answer(to []byte, path string) (status int, body []byte) {
	switch {
	case strings.HasPrefix(path, "/run/"):
		return p.run(to, path[len("/run/"):])
	case strings.HasPrefix(path, "/status/"):
		return p.status(to, path[len("/status/"):])
	case path == "/hold":
		p.held.Add(1)
		<-p.released
		return http.StatusOK, append(to, NowAnswer...)
	case strings.HasPrefix(path, After):
		n, _ := strconv.Atoi(path[len(After):])
		time.Sleep(time.Duration(n) * time.Millisecond)
		return http.StatusOK, append(to, NowAnswer...)
	case path == "/.well-known/skill-sharing":
		return http.StatusOK, append(to, p.index...)
	case strings.HasPrefix(path, "/skills/"):
		p.descriptors.Add(1)
		return http.StatusOK, p.describe(to, path[len("/skills/"):])
	case path == "/counts":
		return http.StatusOK, fmt.Appendf(to, `{"descriptors":%d,"runs":%d,"held":%d}`, p.descriptors.Load(), p.runs.Load(), p.held.Load())
	case path == "/release":
		p.release.Do(func() { close(p.released) })
		return http.StatusOK, to
	}
	return http.StatusNotFound, append(to, `{"error":{"code":"SKILL_NOT_FOUND","message":"There is nothing here."}}`...)
}

// run starts a run. Its id has its whole state, so that nothing is looked up: the kind, the number,
// and for Timed and Wait the times of its beginning and end.
func (p *Provider) run(to []byte, skill string) (status int, body []byte) {
	skill = strings.TrimPrefix(skill, Keyed)
	kind := strings.TrimRight(skill, "0123456789")
	n, _ := strconv.Atoi(skill[len(kind):])
	switch kind {
	case Now, Typical, Points, Many:
		return http.StatusOK, append(to, NowAnswer...)
	case Large:
		return http.StatusOK, append(to, LargeAnswer...)
	}
	number := p.runs.Add(1)
	to = append(append(append(to, `{"execution_id":"`...), kind...), '-')
	to = strconv.AppendUint(to, number, 16)
	element := &p.polls[number%uint64(len(p.polls))]
	switch kind {
	case Poll:
		element.Store(int32(n)) //nolint:gosec // one of PollCounts
	case Timed, Wait:
		if kind == Timed && !slices.Contains(HTTPLaws, n) {
			return http.StatusNotFound, to[:0]
		}
		element.Store(0)
		start := time.Now()
		end := start.Add(p.executionTime(kind, n))
		to = strconv.AppendInt(append(to, '-'), start.UnixNano(), 16)
		to = strconv.AppendInt(append(to, '-'), end.UnixNano(), 16)
	}
	return http.StatusAccepted, append(to, `","status":"accepted"}`...)
}

// status answers with the status of a run.
func (p *Provider) status(to []byte, id string) (status int, body []byte) {
	head := func(state string) []byte {
		return append(append(append(append(to, `{"execution_id":"`...), id...), `","status":"`...), state...)
	}
	kind, number, times, err := parseID(id)
	if err != nil {
		return http.StatusNotFound, to
	}
	element := &p.polls[number%uint64(len(p.polls))]
	switch kind {
	case Poll:
		if element.Add(-1) <= 0 {
			return http.StatusOK, append(append(head("completed"), `","output":`+Output...), '}')
		}
	case Hold:
		select {
		case <-p.released:
			return http.StatusOK, append(append(head("completed"), `","output":`+Output...), '}')
		default:
		}
	case Timed, Wait:
		polls := element.Add(1)
		if !time.Now().Before(times[1]) {
			return http.StatusOK, fmt.Appendf(head("completed"), `","timestamps":{"created_at":"%s","completed_at":"%s"},"output":{"ended":%d,"polls":%d}}`,
				times[0].UTC().Format(time.RFC3339Nano), times[1].UTC().Format(time.RFC3339Nano), times[1].UnixNano(), polls)
		}
	}
	return http.StatusOK, append(head("running"), `"}`...)
}

// parseID parses the id of a run.
func parseID(id string) (kind string, number uint64, times [2]time.Time, err error) {
	kind, rest, _ := strings.Cut(id, "-")
	text, rest, timed := strings.Cut(rest, "-")
	if number, err = strconv.ParseUint(text, 16, 64); err != nil || !timed {
		return kind, number, times, err
	}
	start, end, _ := strings.Cut(rest, "-")
	for i, text := range []string{start, end} {
		nanoseconds, errTime := strconv.ParseInt(text, 16, 64)
		err = errors.Join(err, errTime)
		times[i] = time.Unix(0, nanoseconds)
	}
	return kind, number, times, err
}
