//nolint:thelper // the functions that databases calls are tests
package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	processes "os/exec"
	"testing"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"
)

// writerVariable has the settings of the database to which a process of [TestKilledProcess] writes.
const writerVariable = "SKILL_BRIDGE_TEST_STORE"

// TestWriter is the other process of TestKilledProcess.
func TestWriter(t *testing.T) {
	var settings Settings
	text := os.Getenv(writerVariable)
	if text == "" {
		t.Skip("it is run by TestKilledProcess")
	}
	var named struct{ Kind, File, DSN string }
	if err := json.Unmarshal([]byte(text), &named); err != nil {
		t.Fatal(err)
	}
	settings.Kind, settings.File, settings.DSN = Kind(named.Kind), named.File, named.DSN
	things := begin(t, settings, zap.NewNop()).Things()
	for i := 0; ; i++ {
		if ok, err := things.Put(context.Background(), &Thing{Kind: "written", Name: fmt.Sprint(i)}, 0); !ok || err != nil {
			t.Fatal(ok, err)
		}
		fmt.Println("written", i)
	}
}

// Another process writes to the same database, and is killed: what it has confirmed is there, and its locks are not.
func TestKilledProcess(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		if settings.Kind == Memory {
			t.Skip("no other process can use it")
		}
		ctx, db := t.Context(), open(t, settings)
		text, err := json.Marshal(map[string]string{"Kind": string(settings.Kind), "File": settings.File, "DSN": settings.DSN})
		if err != nil {
			t.Fatal(err)
		}
		command := processes.CommandContext(ctx, os.Args[0], "-test.run=^TestWriter$", "-test.v")
		command.Env = append(os.Environ(), writerVariable+"="+string(text))
		output, err := command.StdoutPipe()
		if err == nil {
			err = command.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		last := -1
		for lines := bufio.NewScanner(output); lines.Scan(); {
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "written %d", &n); err != nil {
				continue
			}
			last = n
			// This process writes at the same time.
			if ok, err := db.Things().Put(ctx, &Thing{Kind: "own", Name: fmt.Sprint(n)}, 0); !ok || err != nil {
				t.Fatal(ok, err)
			}
			if n == 50 {
				_ = command.Process.Kill()
			}
		}
		_ = command.Wait()
		if last < 50 {
			t.Fatalf("the other process has ended after %d", last)
		}
		if n := scalar[int](t, db, reading, "SELECT count(*) FROM things WHERE kind = 'written'"); n <= last {
			t.Errorf("%d things of at least %d", n, last+1)
		}
		if err := db.Check(ctx); err != nil {
			t.Error(err)
		}
	})
}
