package cache_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

func Example() {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		_, _ = io.WriteString(w, "summarize translate")
	}))
	defer provider.Close()

	c, err := cache.New(cache.Config{
		MaxSize:      64 << 20,
		TTL:          5 * time.Minute,
		MaxTTL:       24 * time.Hour,
		StaleIfError: time.Hour,
		NegativeTTL:  5 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	request := cache.Request{
		URL:     provider.URL,
		Timeout: 10 * time.Second,
		Fetch: func(ctx context.Context, conditions http.Header) (*cache.Response, error) {
			get, err := http.NewRequestWithContext(ctx, http.MethodGet, provider.URL, nil)
			if err != nil {
				return nil, err
			}
			get.Header = conditions
			answer, err := provider.Client().Do(get)
			if err != nil {
				return nil, err
			}
			body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
			return &cache.Response{
				StatusCode: answer.StatusCode,
				Header:     answer.Header,
				Body:       body,
				URL:        answer.Request.URL.String(),
			}, errors.Join(err, answer.Body.Close())
		},
		Parse: func(r *cache.Response) (any, int64, error) {
			return strings.Fields(string(r.Body)), int64(len(r.Body)), nil
		},
	}
	for range 2 {
		doc, err := c.Get(context.Background(), request)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(doc.State, doc.Value)
	}
	// Output:
	// fetched [summarize translate]
	// hit [summarize translate]
}
