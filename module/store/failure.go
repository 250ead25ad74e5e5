package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/verdict"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// verdict says what an error means; nil: it is not known.
func (d *DB) verdict(err error) *verdict.Verdict {
	if e, ok := errors.AsType[*verdict.Error](err); ok {
		return &verdict.Verdict{Advice: e.Advice}
	}
	if d.settings.Kind == Postgres {
		return verdict.Postgres(err)
	}
	return verdict.SQLite(err)
}

// judged says what an error of a statement means. It is a [*ledger.Unavailable] if the database can't be used and the statement certainly had no
// effect that lasts.
//
// ctx is the context of the caller: if it has ended, that says nothing about the database.
func (d *DB) judged(ctx context.Context, err error, p purpose) error {
	if err == nil {
		d.answered(false)
		return nil
	}
	if last, ok := errors.AsType[*finalError](err); ok {
		err = last.error
	}
	v := d.verdict(err)
	switch {
	case v == nil && errors.Is(err, context.DeadlineExceeded):
		v = &verdict.Verdict{Advice: verdict.AdviceSlow, Unsure: true}
	case v == nil:
		return err
	}
	trouble := &ledger.Unavailable{Advice: v.Advice, Full: v.Full, Err: v.Mark(fmt.Errorf("%s: %w", d.dialect.place(), err))}
	if ctx.Err() != nil {
		return trouble.Err
	}
	d.suffered(trouble)
	if v.Unsure && p != reading {
		return trouble.Err
	}
	return trouble
}

// answered notes that the database works. That it can be written, and its tables be used, again is said only by [DB.Check]: on a full disk, changes of
// rows still find place here and there.
func (d *DB) answered(checked bool) {
	trouble := d.trouble.Load()
	if trouble == nil {
		return
	}
	if v := d.verdict(trouble.Err); !checked && (trouble.Full || v != nil && v.Tables) {
		return
	}
	if d.trouble.CompareAndSwap(trouble, nil) && recovered(d) {
		d.log.Load().Info("the database works again", zap.String("database", d.dialect.place()))
	}
}

// causeInterval is between two log lines about a database that can't be used: causes alternate when a server fails, and some statements succeed.
const causeInterval = time.Minute

// suffered notes why the database can't be used, and logs it once while it lasts, and at most once in an interval.
func (d *DB) suffered(trouble *ledger.Unavailable) {
	d.said.Lock()
	defer d.said.Unlock()
	if d.trouble.Store(trouble); d.said.advice != trouble.Advice && time.Since(d.said.at) >= causeInterval {
		d.said.advice, d.said.at = trouble.Advice, time.Now()
		d.log.Load().Error("the database can't be used", zap.String("advice", trouble.Advice), zap.Error(trouble.Err))
	}
}

// recovered notes that the database works, and reports whether the log says that it does not.
func recovered(d *DB) bool {
	d.said.Lock()
	defer d.said.Unlock()
	said := d.said.advice
	d.said.advice = ""
	return said != ""
}
