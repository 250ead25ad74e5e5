package credentials

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// saveTimeout bounds storing a new refresh token. It applies even if the deadline of the fetch is
// earlier, because a new token that is not stored is lost: the endpoint may refuse the previous one.
const saveTimeout = 5 * time.Second

// rotation sends token requests with the newest refresh token. A token endpoint may replace the
// token with every use (RFC 6749, section 6), and may treat the use of an older one as theft (RFC
// 9700, section 4.14.2). So Caddy's storage holds the newest token, and a lock there ensures that
// only one instance at a time uses it.
type rotation struct {
	storage    certmagic.Storage
	logger     *zap.Logger
	endpoint   string
	name       string // of the record and of its lock
	configured string // the configured refresh token
}

// maxRecord is the size of the largest record that is read, in bytes.
const maxRecord = 1 << 20

// record is the JSON in Caddy's storage.
type record struct {
	// RefreshToken is the newest one.
	RefreshToken string `json:"refresh_token"`
	// Configured is the digest of the configured token that RefreshToken has replaced.
	Configured string `json:"configured"`
}

func (r rotation) key() string { return "skill_bridge/oauth2/" + r.name + ".json" }

// do sends a token request with the newest refresh token, and stores the one in the response.
func (r rotation) do(ctx context.Context, newest refreshToken,
	request func(context.Context, string) (grantedToken, *run.Failure),
) (grantedToken, *run.Failure) {
	unlock, err := r.lock(ctx)
	if err != nil {
		return grantedToken{refresh: newest}, err
	}
	defer unlock()
	newest = r.newest(ctx, newest)
	granted, err := request(ctx, newest.value)
	if granted.refresh.value == "" {
		granted.refresh = newest // not replaced
	} else {
		granted.refresh.unsaved = true
	}
	if granted.refresh.unsaved {
		granted.refresh.unsaved = !r.save(granted.refresh.value)
	}
	return granted, err
}

// lock keeps other instances from using the same refresh token. If the storage fails, it
// logs a warning and continues without a lock.
func (r rotation) lock(ctx context.Context) (unlock func(), failure *run.Failure) {
	name := "skill_bridge_oauth2_" + r.name
	err := r.storage.Lock(ctx, name)
	switch {
	case err == nil:
		return func() { r.unlock(name) }, nil
	case ctx.Err() != nil:
		return nil, &run.Failure{
			Kind:     run.Unreachable,
			Message:  "The refresh token is in use by another instance of the bridge.",
			Phase:    run.PhaseAuth,
			By:       run.Bridge,
			Executed: run.ExecutedNo,
			Retry:    run.RetryIn(2*time.Second, 3),
			Reach:    &run.Reach{URL: redactURL(r.endpoint), Reason: "locked"},
			Cause:    err,
		}
	}
	r.logger.Warn("the refresh token could not be locked in Caddy's storage; it is used without a lock", zap.Error(err))
	return func() {}, nil
}

func (r rotation) unlock(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	if err := r.storage.Unlock(ctx, name); err != nil {
		r.logger.Warn("the refresh token could not be unlocked in Caddy's storage", zap.Error(err))
	}
}

// newest returns the refresh token to use. This is the stored one, which another instance may have
// stored, unless the known one could not be stored and is therefore newer.
func (r rotation) newest(ctx context.Context, known refreshToken) refreshToken {
	if known.unsaved {
		return known
	}
	if stored := r.load(ctx); stored != "" {
		return refreshToken{value: stored}
	}
	if known.value == "" {
		known.value = r.configured
	}
	return known
}

// load returns the stored refresh token; "": there is no usable one.
func (r rotation) load(ctx context.Context) string {
	info, err := r.storage.Stat(ctx, r.key())
	var b []byte
	if err == nil && info.Size <= maxRecord { // else it is damaged
		b, err = r.storage.Load(ctx, r.key())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		r.logger.Warn("the newest refresh token could not be read from Caddy's storage", zap.Error(err))
		return ""
	}
	var rec record
	if err := json.Unmarshal(b, &rec); err != nil || rec.RefreshToken == "" || rec.Configured == "" {
		// The error may contain the record, so it is not logged.
		r.logger.Warn("a damaged refresh token in Caddy's storage is ignored", zap.String("key", r.key()))
		return ""
	}
	if rec.Configured != digest(r.configured) {
		return ""
	}
	return rec.RefreshToken
}

// save stores a refresh token and reports whether that succeeded.
func (r rotation) save(token string) bool {
	b, err := json.Marshal(record{RefreshToken: token, Configured: digest(r.configured)})
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
		defer cancel()
		err = r.storage.Store(ctx, r.key(), b)
	}
	if err != nil {
		r.logger.Error("a new refresh token could not be written to Caddy's storage; it is lost when Caddy stops", zap.Error(err))
	}
	return err == nil
}
