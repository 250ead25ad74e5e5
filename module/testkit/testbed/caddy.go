package testbed

import (
	"bytes"
	"cmp"
	"encoding/json" // for Caddy's own types
	"errors"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddypki"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // for all directives of Caddyfiles
)

const loopback = "127.0.0.1"

// object is a JSON object.
type object = map[string]any

// Bridge returns a Caddyfile with a bridge at /rpc of {$PORT} and these further lines. The bridge may
// call providers on loopback addresses without TLS. Use [Site] for a bridge with other networks.
func Bridge(lines ...string) string {
	return Site("skill_bridge /rpc {\n\tallow_http\n\tallow_networks 127.0.0.0/8\n" + indent("\t", lines) + "}")
}

// Site returns a Caddyfile with a site at {$PORT} that has these lines.
func Site(lines ...string) string {
	return "http://" + loopback + ":{$PORT} {\n" + indent("\t", lines) + "}\n"
}

// Password is the password of all [Accounts].
const Password = "hiccup"

// Accounts returns a basic_auth directive for users with the [Password].
func Accounts(users ...string) string {
	var b strings.Builder
	for _, user := range users {
		b.WriteString("\t" + user + " $2a$04$axJcE8AhbmOn7iuRNBNOW.yKt5YO/Mmcb0k0IidkZO/9iUcT7oy1G\n") // low cost, for speed
	}
	return "basic_auth {\n" + b.String() + "}"
}

func indent(by string, lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		for part := range strings.Lines(line) {
			b.WriteString(by + strings.TrimRight(part, "\n") + "\n")
		}
	}
	return b.String()
}

// ports are the free ports of a Caddyfile's placeholders.
type ports map[string]string

var (
	portWord = regexp.MustCompile(`\{\$(PORT\w*|ADMIN)\}`)
	unset    = regexp.MustCompile(`http://[\w.]+:\{\$\w+\}`)
)

// fill replaces the placeholders of free ports. Another name in the place of a port is a mistake: the Caddys of all tests would share port 80.
func (p ports) fill(tb testing.TB, text string) string {
	tb.Helper()
	if word := unset.FindString(portWord.ReplaceAllString(text, "0")); word != "" {
		tb.Fatalf("%s: a placeholder of a port starts with PORT", word)
	}
	return portWord.ReplaceAllStringFunc(text, func(word string) string {
		name := portWord.FindStringSubmatch(word)[1]
		if p[name] == "" {
			p[name] = FreePort(tb)
		}
		return p[name]
	})
}

// server has the common fields of Caddy and Process.
type server struct {
	*Client      // of http://127.0.0.1:{$PORT}/rpc
	Log     *Log // its log
	tb      testing.TB
	ports   ports
}

// Port returns the port of a placeholder, such as "ADMIN".
func (s *server) Port(word string) string { return s.ports[word] }

// Admin returns the URL of the admin API. With [StartCaddy], the Caddyfile needs [AdminAPI].
func (s *server) Admin() string { return "http://" + net.JoinHostPort(loopback, s.Port("ADMIN")) }

// InProgress returns the number of calls in progress, from the admin API.
func (s *server) InProgress() int {
	s.tb.Helper()
	var calls struct {
		Total int `json:"total"`
	}
	a := s.With(Fresh()).Send(http.MethodGet, s.Admin()+"/skill_bridge/calls", "")
	if err := json.Unmarshal(a.Body, &calls); err != nil {
		s.tb.Fatalf("the admin API: %v: %v", err, a)
	}
	return calls.Total
}

// A Caddy runs in this process. There can be only one at a time.
type Caddy struct {
	server
	key     string
	storage string
	stop    func()
}

var (
	running atomic.Bool // whether there is a Caddy
	keys    atomic.Int64
)

// StartCaddy runs a Caddyfile until the test ends. The admin API is off unless the Caddyfile has an
// admin option. The log has all levels, in JSON. The storage is a temporary folder, and Caddy's
// certificate authorities are not added to the trust store of this machine.
func StartCaddy(tb testing.TB, caddyfile string) *Caddy {
	tb.Helper()
	if !running.CompareAndSwap(false, true) {
		tb.Fatal("there is a Caddy in this process already")
	}
	c := &Caddy{server: server{Log: newLog(tb), tb: tb, ports: ports{}}, key: strconv.FormatInt(keys.Add(1), 10), storage: tempDir(tb)}
	logs.Store(c.key, c.Log)
	home, set := os.LookupEnv(dataHome)
	c.stop = sync.OnceFunc(func() {
		// caddy.Stop does not stop the admin API; another configuration does.
		if err := caddy.Load([]byte(nothing), true); err != nil {
			tb.Errorf("stopping the admin API: %v", err)
		}
		if err := caddy.Stop(); err != nil {
			tb.Errorf("stopping Caddy: %v", err)
		}
		logs.Delete(c.key)
		if set {
			_ = os.Setenv(dataHome, home)
		} else {
			_ = os.Unsetenv(dataHome)
		}
		running.Store(false)
	})
	tb.Cleanup(c.stop)
	err := c.load(caddyfile)
	// Caddy does not wrap the error of the listener, so its text decides.
	for attempt := 0; attempt < 3 && err != nil && strings.Contains(err.Error(), "address already in use"); attempt++ {
		clear(c.ports) // another program has taken a port
		err = c.load(caddyfile)
	}
	if err != nil {
		tb.Fatalf("starting Caddy: %v\n%s", err, caddyfile)
	}
	c.Client = NewClient(tb, "http://"+loopback+":"+c.Port("PORT")+"/rpc")
	return c
}

// tempDir returns a temporary folder. When it is removed, a stopped Caddy may still write to it.
func tempDir(tb testing.TB) string {
	tb.Helper()
	folder, err := os.MkdirTemp("", "testbed")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		Eventually(tb, 20*time.Second, func() bool {
			return !obtaining() && os.RemoveAll(folder) == nil
		}, "a temporary folder can be removed")
	})
	return folder
}

// obtaining reports whether a certificate is being created, which caddy.Stop does not cancel.
func obtaining() bool {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1) // to memory
	return strings.Contains(b.String(), "certmagic.(*jobManager).worker")
}

// nothing is a configuration without apps, log and admin API.
const nothing = `{"admin":{"disabled":true,"config":{"persist":false}},"logging":{"logs":{"default":{"writer":{"output":"discard"}}}}}`

// AdminAPI is the first block of a Caddyfile with Caddy's admin API and metrics.
const AdminAPI = "{\n\tadmin " + loopback + ":{$ADMIN}\n\tmetrics\n}\n"

// Stop stops Caddy before the test ends.
func (c *Caddy) Stop() { c.stop() }

// Reload runs another Caddyfile with the same ports, and waits until the listeners of the old one are
// closed. On an error, the old one continues.
func (c *Caddy) Reload(caddyfile string) error {
	c.tb.Helper()
	if err := c.load(caddyfile); err != nil {
		return err
	}
	c.ports.settle(c.tb) // not at a start: to read the table of sockets takes more of the processor than a start of Caddy
	return nil
}

// load runs a Caddyfile.
func (c *Caddy) load(caddyfile string) error {
	c.tb.Helper()
	text := c.ports.fill(c.tb, caddyfile)
	adapted, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err
	}
	for _, w := range warnings {
		if !strings.Contains(w.Message, "not formatted") {
			c.tb.Logf("adapting: %s", w)
		}
	}
	config, err := c.settle(adapted)
	if err != nil {
		return err
	}
	return caddy.Load(config, true)
}

// settle waits until only one configuration listens on each port. The listeners of both share the
// port (SO_REUSEPORT), and connections that the kernel gives to the closing one are lost.
func (p ports) settle(tb testing.TB) {
	tb.Helper()
	if !hasProc {
		return
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		count := listeners(tb)
		settled := true
		for _, port := range p {
			settled = settled && count[port] <= 1
		}
		if settled {
			return
		}
	}
	tb.Log("an old configuration still listens after its reload")
}

// settle changes a configuration so that it does not affect this machine.
func (c *Caddy) settle(adapted []byte) ([]byte, error) {
	config := new(caddy.Config)
	if err := json.Unmarshal(adapted, config); err != nil {
		return nil, err
	}
	if config.Admin == nil {
		config.Admin = &caddy.AdminConfig{Disabled: true}
	}
	config.Admin.Config = &caddy.ConfigSettings{Persist: new(false)}
	if config.StorageRaw == nil {
		config.StorageRaw = caddyconfig.JSON(object{"module": "file_system", "root": c.storage}, nil)
	}
	if err := keepOut(config); err != nil {
		return nil, err
	}
	c.keepIn(config)
	if config.Logging == nil {
		config.Logging = new(caddy.Logging)
	}
	if config.Logging.Logs == nil {
		config.Logging.Logs = map[string]*caddy.CustomLog{}
	}
	if config.Logging.Logs["default"] == nil {
		config.Logging.Logs["default"] = &caddy.CustomLog{BaseLog: caddy.BaseLog{Level: "DEBUG"}}
	}
	if config.Logging.Sink == nil { // the messages of net/http
		config.Logging.Sink = new(caddy.SinkLog)
	}
	logs := []*caddy.BaseLog{&config.Logging.Sink.BaseLog}
	for _, l := range config.Logging.Logs {
		logs = append(logs, &l.BaseLog)
	}
	for _, l := range logs {
		if l.WriterRaw == nil {
			l.WriterRaw = caddyconfig.JSON(object{"output": "testbed", "key": c.key}, nil)
		}
		if l.EncoderRaw == nil {
			l.EncoderRaw = caddyconfig.JSON(object{"format": "json"}, nil)
		}
	}
	return json.Marshal(config)
}

// keepIn makes the folder of the storage that of the default database, too: configurations that share the one share the other.
func (c *Caddy) keepIn(config *caddy.Config) {
	var storage struct {
		Root string `json:"root"`
	}
	_ = json.Unmarshal(config.StorageRaw, &storage) // others than file_system have no root
	_ = os.Setenv(dataHome, cmp.Or(storage.Root, c.storage))
}

// dataHome is the environment variable that says where Caddy's data directory is.
const dataHome = "XDG_DATA_HOME"

// keepOut keeps Caddy's apps from writing outside of the test: the TLS app does not write when it has
// cleaned the storage, and certificate authorities are not added to the trust store of this machine.
func keepOut(config *caddy.Config) error {
	if config.AppsRaw == nil {
		return errors.New("the Caddyfile has no site")
	}
	if err := distrust(config); err != nil {
		return err
	}
	var app caddytls.TLS
	if own := config.AppsRaw["tls"]; own != nil {
		if err := json.Unmarshal(own, &app); err != nil {
			return err
		}
	}
	app.DisableStorageClean = true
	config.AppsRaw["tls"] = caddyconfig.JSON(app, nil)
	return nil
}

// distrust keeps Caddy from adding its certificate authorities to the trust store of this machine.
func distrust(config *caddy.Config) error {
	var app caddypki.PKI
	if own := config.AppsRaw["pki"]; own != nil {
		if err := json.Unmarshal(own, &app); err != nil {
			return err
		}
	}
	if app.CAs == nil {
		app.CAs = map[string]*caddypki.CA{}
	}
	if app.CAs[caddypki.DefaultCAID] == nil {
		app.CAs[caddypki.DefaultCAID] = new(caddypki.CA) // the default authority
	}
	for _, authority := range app.CAs {
		authority.InstallTrust = new(false)
	}
	config.AppsRaw["pki"] = caddyconfig.JSON(app, nil)
	return nil
}
