package observe

import (
	"cmp"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/module/usage"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// processMetrics are the metrics of this process. Caddy makes a new registry for each
// configuration; all of them get these metrics, so that a reload resets nothing.
var processMetrics = newMetrics()

// kept are the metrics of what the databases keep.
var (
	kept   keptMetrics
	grants grantFigures
)

// webhookMetrics are about requests to URLs of callers.
type webhookMetrics struct {
	pushes, pushLosses *prometheus.CounterVec
	notifications      *prometheus.CounterVec
	notificationLosses prometheus.Counter
}

// metrics is the collector of all bridges of a process. It counts calls as they end, and reads
// the other metrics (readDescs) when they are collected.
//
// The number of label values is bounded. Texts of agents and providers are not labels,
// except the ids of existing skills, up to maxSkillLabels.
type metrics struct {
	webhookMetrics

	calls         *prometheus.CounterVec
	callDuration  *prometheus.HistogramVec
	phaseDuration *prometheus.HistogramVec
	pollsPerRun   *prometheus.HistogramVec
	overshoot     *prometheus.HistogramVec
	retries       *prometheus.CounterVec
	tokenRequests *prometheus.CounterVec
	refusals      *prometheus.CounterVec
	build         *prometheus.GaugeVec
	streams       prometheus.Gauge
	published     *prometheus.CounterVec
	publishing    prometheus.Gauge
	consents      consentMetrics
	counted       *prometheus.Registry // of all of the above

	skills labelSet
	usage  *usage.Table

	mu      sync.Mutex
	caches  map[*cache.Cache]struct{} // open caches
	dropped cache.Statistics          // sums of the closed caches
}

const (
	metricsNamespace = "caddy"
	metricsSubsystem = "skill_bridge"

	labelProvider = "provider"
	labelOutcome  = "outcome"

	labelNone  = "none"  // there is no such provider or skill
	labelOther = "other" // the skill is beyond maxSkillLabels
	// maxSkillLabels is how many skills of the process get a label of their own.
	maxSkillLabels = 200
)

// Bucket bounds of the histograms.
var (
	callBuckets      = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 60, 120, 300, 600}
	phaseBuckets     = []float64{.0001, .001, .005, .025, .1, .5, 1, 5, 25, 120, 600}
	pollBuckets      = []float64{0, 1, 2, 3, 5, 8, 13, 21, 50, 100, 500}
	overshootBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
)

// Metrics that are read when they are collected.
var (
	inProgressDesc = metricDesc("calls_in_progress", "Calls in progress.", labelProvider)
	waitingDesc    = metricDesc("runs_waiting", "Calls in progress that wait for a run to end.")
	breakersDesc   = metricDesc("circuit_breakers_open", "Hosts of the provider whose circuit breaker is open.", labelProvider)
	documentsDesc  = metricDesc("cache_requests_total", "Document requests by cache result.", "result")
	evictionsDesc  = metricDesc("cache_evictions_total", "Documents removed from the cache because it was full or they had expired.")
	cacheSizeDesc  = metricDesc("cache_bytes", "Approximate size of the cached documents.")
	readDescs      = []*prometheus.Desc{inProgressDesc, waitingDesc, breakersDesc, documentsDesc, evictionsDesc, cacheSizeDesc, keptDesc, keptMaxDesc, openDesc, deliveriesDesc, usableDesc, grantsDesc}
)

func metricDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(metricsNamespace, metricsSubsystem, name), help, labels, nil)
}

func newMetrics() *metrics {
	m := &metrics{skills: labelSet{most: maxSkillLabels, known: make(map[string]string)}, caches: make(map[*cache.Cache]struct{}), counted: prometheus.NewRegistry()}
	auto := promauto.With(m.counted)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return auto.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: name, Help: help, Buckets: buckets,
		}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return auto.NewGaugeVec(prometheus.GaugeOpts{Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: name, Help: help}, labels)
	}
	m.build = gauge("build_info", "The versions of the bridge, of Caddy and of Go. It is always 1.", "version", "caddy_version", "goversion")
	m.streams = gauge("streams", "Open streams of events.").WithLabelValues()
	m.published = counter("published_calls_total", "Invocations of published skills by outcome.", "skill", labelOutcome)
	m.publishing = gauge("published_calls_in_progress", "Invocations of published skills that an API executes.").WithLabelValues()
	m.calls = counter("calls_total", "Calls by outcome.", "front", "method", labelProvider, "skill", labelOutcome)
	m.callDuration = histogram("call_duration_seconds", "Duration of calls that execute or follow a run.", callBuckets, labelProvider, labelOutcome)
	m.phaseDuration = histogram("phase_duration_seconds", "Duration of the phases of calls that execute or follow a run.", phaseBuckets, "phase")
	m.pollsPerRun = histogram("polls_per_run", "Status and result requests per call that followed a run.", pollBuckets, labelProvider)
	m.overshoot = histogram("overshoot_seconds", "Time between the end of a run, by the provider's clock, and the answer in which the bridge read it.", overshootBuckets, labelProvider)
	m.retries = counter("retries_total", "Repeated invocations.", labelProvider)
	m.tokenRequests = counter("token_requests_total", "Requests to token endpoints.", labelProvider, labelOutcome)
	m.refusals = counter("refused_connections_total", "Connections that the configuration does not allow.", "reason")
	m.pushes = counter("push_attempts_total", "Requests to webhooks of clients.", labelOutcome)
	m.pushLosses = counter("push_lost_total", "Events of tasks, and webhooks, that were given up because a webhook did not take events.", "lost")
	m.usage = usage.NewTable(counter("usage_total", "Calls that execute skills, accepted runs and calls that quotas refused, by principal and skill.",
		usage.LabelPrincipal, usage.LabelSkill, usage.LabelEvent), time.Now)
	m.notifications = counter("notification_attempts_total", "Requests that tell callers the ends of their runs.", labelOutcome)
	m.notificationLosses = counter("notifications_lost_total", "Ends of runs that callers were not told, since the receiver did not take them.").WithLabelValues()
	m.consents = consentMetrics{
		given:     counter("consents_given_total", "Accounts that users have connected.", labelProvider),
		ended:     counter("consents_ended_total", "Accounts that are no longer connected, by reason.", labelProvider, "reason"),
		refreshes: counter("grant_refreshes_total", "Requests for new tokens of users.", labelProvider, labelOutcome),
	}
	for _, phase := range []string{"discovery", "credentials", "submit", "run", "polls", "result"} {
		m.phaseDuration.WithLabelValues(phase)
	}
	for _, reason := range []string{string(run.RuleAddress), string(run.RulePort), string(run.RuleHost)} {
		m.refusals.WithLabelValues(reason)
	}
	for _, lost := range []string{"event", "webhook"} { // so that the first ones are an increase, too
		m.pushLosses.WithLabelValues(lost)
	}
	return m
}

// SetVersions sets the versions of the bridge and of Caddy that the metrics have.
func SetVersions(bridge, caddy string) {
	processMetrics.build.Reset()
	processMetrics.build.WithLabelValues(bridge, caddy, runtime.Version()).Set(1)
}

// RegisterMetrics registers the metrics with a configuration's registry, unless another
// handler of the configuration has.
func RegisterMetrics(registry prometheus.Registerer) error {
	err := registry.Register(processMetrics)
	if _, known := errors.AsType[prometheus.AlreadyRegisteredError](err); known {
		return nil
	}
	return err
}

// Published counts an invocation of a published skill that has ended, with the code of its error.
func Published(skillID string, state run.State, code document.ErrorCode) {
	outcome := map[run.State]string{run.Completed: outcomeCompleted, run.Lost: run.Stopped.String()}[state]
	outcome = cmp.Or(outcome, cmp.Or(document.Kinds[code], run.RunFailed).String())
	processMetrics.published.WithLabelValues(processMetrics.skills.of(skillID), outcome).Inc()
}

// Publishing counts an invocation that an API executes as one in progress, until end is called.
func Publishing() (end func()) {
	gauge := processMetrics.publishing
	gauge.Inc()
	return gauge.Dec
}

// called counts a call that has ended.
func (m *metrics) called(c *translate.Call, o *run.Run, s *translate.Statistics) {
	provider, outcome := providerLabel(s.Source), outcomeOf(o, s)
	m.calls.WithLabelValues(c.Front, methodOf(c), provider, m.skills.of(o.SkillID), outcome).Inc()
	if !asksForRun(s) {
		return // only calls about a run count in the histograms
	}
	m.callDuration.WithLabelValues(provider, outcome).Observe(s.Duration.Seconds())
	if n := s.Stats.Attempts - 1; n > 0 {
		m.retries.WithLabelValues(provider).Add(float64(n))
	}
	m.observePhases(c, s)
	if s.Followed.IsZero() {
		return
	}
	m.pollsPerRun.WithLabelValues(provider).Observe(float64(s.Stats.Polls))
	if s.Stats.Overshoot > 0 {
		m.overshoot.WithLabelValues(provider).Observe(s.Stats.Overshoot.Seconds())
	}
}

// observePhases records the durations of the phases that the call completed.
func (m *metrics) observePhases(c *translate.Call, s *translate.Statistics) {
	if s.Found.IsZero() {
		return
	}
	observe := func(phase string, d time.Duration) { m.phaseDuration.WithLabelValues(phase).Observe(d.Seconds()) }
	observe("discovery", s.Found.Sub(c.Arrived))
	before := s.Found
	if !s.Submitted.IsZero() && s.Stats.Attempts > 0 { // otherwise this call submitted nothing
		observe("submit", s.Submitted.Sub(s.Found))
		before = s.Submitted
	}
	if !s.Followed.IsZero() {
		observe("run", s.Followed.Sub(before))
	}
	for phase, d := range map[string]time.Duration{"credentials": s.Stats.Credentials, "polls": s.Stats.Polling, "result": s.Stats.Result} {
		if d > 0 {
			observe(phase, d)
		}
	}
}

// exchanged counts a token request. Other exchanges count in the metrics of their calls.
func (m *metrics) exchanged(e *exchange.Exchange) {
	if e.Phase != run.PhaseAuth || e.Abandoned {
		return
	}
	m.tokenRequests.WithLabelValues(providerLabel(e.Source), tokenOutcome(e.Status)).Inc()
}

// tokenOutcome returns the outcome label of a token request: refused is a permanent error,
// unavailable a temporary one.
func tokenOutcome(status int) string {
	switch {
	case status >= 200 && status < 300:
		return "ok"
	case status == 0, status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return "unavailable"
	}
	return "refused"
}

// refused counts a connection that the guard refused. It does not count names that do not
// exist, because no option would allow these connections.
func (m *metrics) refused(r *exchange.RefusedError) {
	if rule := r.Rule; rule != run.RuleNoSuchHost {
		m.refusals.WithLabelValues(string(rule)).Inc()
	}
}

// Usage returns what each caller of the process has used of each skill.
func Usage() *usage.Table { return processMetrics.usage }

// providerLabel returns the label of a configured namespace; "none" for the empty one.
func providerLabel(namespace string) string {
	if namespace == "" {
		return labelNone
	}
	return strings.ToValidUTF8(namespace, "\uFFFD")
}

// labelSet bounds the values of a label that providers choose: the first values up to a maximum
// are kept, all others become "other". Values are never removed, like the series of a vector.
type labelSet struct {
	most  int
	mu    sync.Mutex
	known map[string]string
}

// of returns the label of a text.
func (l *labelSet) of(text string) string {
	if text == "" {
		return labelNone
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if label, known := l.known[text]; known {
		return label
	}
	if len(l.known) >= l.most || len(text) > MaxLogged {
		return labelOther
	}
	text = strings.Clone(text) // text may be a substring of a document
	l.known[text] = strings.ToValidUTF8(text, "\uFFFD")
	return l.known[text]
}

// CountCache adds the statistics of a cache to the metrics until the returned function is
// called. Call it before the cache is closed.
func CountCache(c *cache.Cache) (end func()) {
	m := processMetrics
	m.mu.Lock()
	defer m.mu.Unlock()
	m.caches[c] = struct{}{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.caches, c)
		m.dropped = addStatistics(m.dropped, c.Statistics()) // a counter must not decrease
		m.dropped.Bytes = 0
	}
}

// cacheStatistics returns the sums over all caches, including closed ones.
func (m *metrics) cacheStatistics() cache.Statistics {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.dropped
	for c := range m.caches {
		all = addStatistics(all, c.Statistics())
	}
	return all
}

func addStatistics(a, b cache.Statistics) cache.Statistics {
	return cache.Statistics{
		Hits: a.Hits + b.Hits, Fetched: a.Fetched + b.Fetched, Revalidated: a.Revalidated + b.Revalidated,
		Stale: a.Stale + b.Stale, Failed: a.Failed + b.Failed, Remembered: a.Remembered + b.Remembered,
		Evicted: a.Evicted + b.Evicted, Bytes: a.Bytes + b.Bytes,
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(descs chan<- *prometheus.Desc) {
	m.counted.Describe(descs)
	for _, d := range readDescs {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(collected chan<- prometheus.Metric) {
	m.counted.Collect(collected)
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		collected <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	s := m.cacheStatistics()
	for result, n := range map[string]uint64{
		"hit": s.Hits, "fetched": s.Fetched, "revalidated": s.Revalidated,
		"stale": s.Stale, "failed": s.Failed, "remembered": s.Remembered,
	} {
		send(documentsDesc, prometheus.CounterValue, float64(n), result)
	}
	send(evictionsDesc, prometheus.CounterValue, float64(s.Evicted))
	send(cacheSizeDesc, prometheus.GaugeValue, float64(s.Bytes))

	all, mayKeep := databases()
	if kept.send(all, send); mayKeep > 0 {
		send(keptMaxDesc, prometheus.GaugeValue, float64(mayKeep))
	}
	grants.send(send)

	// Several bridges may have the same provider, or share circuit breakers, which count once.
	var waiting int64
	calls, open := map[string]int64{}, map[string]int64{} // by label
	breakers := map[*exchange.Breakers][]string{}         // with the providers that use them
	for _, b := range Live() {
		_, waits := b.InProgress()
		waiting += waits
		for _, source := range b.Sources() {
			calls[providerLabel(source.Namespace)] += source.Runs
			breakers[b.Breakers] = append(breakers[b.Breakers], source.Namespace)
		}
	}
	for b, namespaces := range breakers {
		for _, state := range b.States() {
			// The breakers of a removed provider stay in the pool without changing, so they do not count.
			if state.Open && slices.Contains(namespaces, state.Source) {
				open[providerLabel(state.Source)]++
			}
		}
	}
	send(waitingDesc, prometheus.GaugeValue, float64(waiting))
	for provider, n := range calls {
		send(inProgressDesc, prometheus.GaugeValue, float64(n), provider)
		send(breakersDesc, prometheus.GaugeValue, float64(open[provider]), provider)
	}
}
