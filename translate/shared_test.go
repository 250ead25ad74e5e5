package translate_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// Calls that wait for the same list share what is made of it, also if the list may not be cached and is different each time.
func TestCallsShareLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := providertest.New()
		p.Publish(providertest.Skill("acme/one", nil))
		var entries []object // so many that making a table of them takes some time
		for i := range 3000 {
			entries = append(entries, object{
				"id": fmt.Sprintf("acme/s%d", i), "name": "One", "capability_type": "api", "description": "d", "descriptor_url": p.URL + "/skills/0.json", "access": "public", "version": "1.2.3",
			})
		}
		entries[0]["id"] = "acme/one"
		var reads, made atomic.Int64
		p.On("GET /.well-known/skill-sharing", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			w.Header().Set("Cache-Control", "no-store")
			providertest.Answer(http.StatusOK, object{
				"protocol": object{"version": "1.0.0"}, "provider": object{"name": fmt.Sprint("Reading ", reads.Add(1))},
				"skills": entries,
			})(w, r)
		})
		b := newBridge(t, p.Source(t, "acme"))
		catalog.OnCount(t.Context(), b.Catalog(), func(context.Context, int) { made.Add(1) })
		var callers sync.WaitGroup
		for i := range 100 {
			time.Sleep(20 * time.Millisecond) // for two seconds
			callers.Go(func() {
				if o := b.Start(t.Context(), translate.Call{Name: "acme.one", Inputs: jsonrpc.Object{}}).Wait(); o.Failure != nil {
					t.Errorf("call %d: %v", i, o.Failure)
				}
			})
		}
		callers.Wait()
		if made, reads := made.Load(), reads.Load(); reads > 4 || made > reads {
			t.Errorf("%d tables were made of %d lists", made, reads)
		}
	})
}
