//go:build unix

package postgrestest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// script makes a cluster, starts its server, and stops it when its standard input ends: with the test binary, however that ends. A server that no
// process waits for would run for ever. Nothing has to survive a crash of the machine, so nothing is synced.
const script = `
cd "$1" && trap 'cd / && rm -rf "$1"' EXIT
printf %s "$4" >password && "$2/initdb" -D data -U postgres -A scram-sha-256 --pwfile=password -E UTF8 --locale=C --no-sync >log 2>&1 &&
printf 'fsync = off\nfull_page_writes = off\nmax_connections = 200\n' >>data/postgresql.conf &&
"$2/pg_ctl" -D data -w -l log -o "-h 127.0.0.1 -p $3 -k $1" start >/dev/null 2>&1 &&
echo started || { tail -n 5 log; exit 1; }
exec 1>&-
cat >/dev/null
"$2/pg_ctl" -D data -m immediate -w stop >/dev/null 2>&1
`

// start starts the server.
func start() (started *cluster, err error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	for range 3 { // the port may be taken in the meantime
		if started, err = startAt(bin); err == nil {
			return started, nil
		}
	}
	return nil, err
}

func startAt(bin string) (*cluster, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "postgrestest-")
	if err != nil {
		return nil, err
	}
	attributes := &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal must not end the script before the server
	if os.Getuid() == 0 {                             // whom initdb refuses
		uid, gid, err := account("postgres")
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMissing, err)
		}
		attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // they have 32 bits
		if err := os.Chown(folder, uid, gid); err != nil {
			return nil, err
		}
	}
	command := exec.Command("sh", "-c", script, "sh", folder, bin, strconv.Itoa(port), Password)
	command.SysProcAttr, command.Dir = attributes, filepath.Dir(folder)
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	var said []string
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if said = append(said, lines.Text()); said[0] == "started" {
			return &cluster{location(port), stdin, func() error { return errors.Join(command.Wait(), os.RemoveAll(folder)) }}, nil
		}
	}
	return nil, errors.Join(errors.New("the server did not start: "+strings.Join(said, "\n")), command.Wait())
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

func account(name string) (uid, gid int, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, err
	}
	uid, err = strconv.Atoi(u.Uid)
	gid, e := strconv.Atoi(u.Gid)
	return uid, gid, errors.Join(err, e)
}
