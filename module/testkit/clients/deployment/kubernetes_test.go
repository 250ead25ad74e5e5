package deployment_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const folder = "../../../../caddyfile-examples/deploy/kubernetes"

// rendered are the objects that kustomize makes.
type rendered struct {
	deployment *apps.Deployment
	service    *core.Service
	config     *core.ConfigMap
	budget     *policy.PodDisruptionBudget
	monitor    *monitoring.ServiceMonitor
}

// render renders the folder. Unknown and repeated fields fail the test.
func render(t *testing.T) *rendered {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, core.AddToScheme, policy.AddToScheme, monitoring.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	all := new(rendered)
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(text, nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		switch o := object.(type) {
		case *apps.Deployment:
			all.deployment = o
		case *core.Service:
			all.service = o
		case *core.ConfigMap:
			all.config = o
		case *policy.PodDisruptionBudget:
			all.budget = o
		case *monitoring.ServiceMonitor:
			all.monitor = o
		default:
			t.Errorf("a %T that this test does not know", o)
		}
	}
	if all.deployment == nil || all.service == nil || all.config == nil || all.budget == nil || all.monitor == nil {
		t.Fatalf("an object is missing: %+v", *all)
	}
	return all
}

// seconds returns the sum of two options of the Caddyfile.
func seconds(t *testing.T, caddyfile string, options ...string) (sum time.Duration) {
	t.Helper()
	for _, option := range options {
		found := regexp.MustCompile(`(?m)^\t` + option + ` (\w+)$`).FindStringSubmatch(caddyfile)
		if found == nil {
			t.Fatalf("the Caddyfile has no %s", option)
		}
		wait, err := time.ParseDuration(found[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += wait
	}
	return sum
}

// TestSelectors: everything is about the pods of the deployment, of which one at least stays while nodes are drained.
func TestSelectors(t *testing.T) {
	all := render(t)
	labels := all.deployment.Spec.Template.Labels
	for of, selector := range map[string]map[string]string{
		"deployment": all.deployment.Spec.Selector.MatchLabels, "service": all.service.Spec.Selector, "disruption budget": all.budget.Spec.Selector.MatchLabels,
		"spread": all.deployment.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
	} {
		if !reflect.DeepEqual(selector, labels) {
			t.Errorf("the %s selects %v, the pods have %v", of, selector, labels)
		}
	}
	if !reflect.DeepEqual(all.monitor.Spec.Selector.MatchLabels, all.service.Labels) {
		t.Errorf("the monitor selects %v, the service has %v", all.monitor.Spec.Selector.MatchLabels, all.service.Labels)
	}
	switch most := all.budget.Spec.MaxUnavailable; {
	case most == nil:
		t.Error("the disruption budget does not say how many pods may be missing")
	case most.IntValue() < 1 || int32(most.IntValue()) >= *all.deployment.Spec.Replicas:
		t.Errorf("of %d pods, %d may be missing: nodes can't be drained, or nothing serves", *all.deployment.Spec.Replicas, most.IntValue())
	}
}

// TestPorts: what the service, the monitor and the probes ask for is there in the Caddyfile.
func TestPorts(t *testing.T) {
	all := render(t)
	caddyfile, container := all.config.Data["Caddyfile"], all.deployment.Spec.Template.Spec.Containers[0]
	var inPod, inService []string
	for _, p := range container.Ports {
		inPod = append(inPod, p.Name)
		if !strings.Contains(caddyfile, fmt.Sprintf("\nhttp://:%d {\n", p.ContainerPort)) {
			t.Errorf("the Caddyfile has no port %d", p.ContainerPort)
		}
	}
	for _, p := range all.service.Spec.Ports {
		inService = append(inService, p.Name)
		if !slices.Contains(inPod, p.TargetPort.String()) {
			t.Errorf("the service sends to %s, the pods have %v", p.TargetPort.String(), inPod)
		}
	}
	if port := all.monitor.Spec.Endpoints[0].Port; !slices.Contains(inService, port) || !strings.Contains(caddyfile, "\tmetrics /metrics\n") {
		t.Errorf("the monitor reads %s, the service has %v", port, inService)
	}
	for path, probe := range map[string]*core.Probe{"/healthz": container.LivenessProbe, "/readyz": container.ReadinessProbe} {
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port.String() != "http" || !strings.Contains(caddyfile, "\t\thealth\n") {
			t.Errorf("a probe asks %+v, not %s", probe.HTTPGet, path)
		}
	}
}

// TestEnd: Kubernetes waits longer than Caddy does, and learns before Caddy takes no more calls that it is not ready.
func TestEnd(t *testing.T) {
	all := render(t)
	pod, caddyfile := all.deployment.Spec.Template.Spec, all.config.Data["Caddyfile"]
	if kubernetes, own := time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second, seconds(t, caddyfile, "shutdown_delay", "grace_period"); kubernetes <= own {
		t.Errorf("Kubernetes waits %s, Caddy %s", kubernetes, own)
	}
	probe := pod.Containers[0].ReadinessProbe
	if learns, delay := time.Duration(probe.PeriodSeconds*probe.FailureThreshold)*time.Second, seconds(t, caddyfile, "shutdown_delay"); learns >= delay {
		t.Errorf("Kubernetes learns it after %s, and Caddy takes calls for %s", learns, delay)
	}
}

// TestSecurity: the container has no rights, writes only below /data, and gets the secrets that the Caddyfile reads.
func TestSecurity(t *testing.T) {
	all := render(t)
	pod := all.deployment.Spec.Template.Spec
	container := pod.Containers[0]
	c := container.SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || !*c.ReadOnlyRootFilesystem || *c.AllowPrivilegeEscalation || !slices.Contains(c.Capabilities.Drop, "ALL") || *pod.AutomountServiceAccountToken {
		t.Errorf("%+v, %+v", pod.SecurityContext, c)
	}
	mounts := map[string]string{}
	for _, m := range container.VolumeMounts {
		mounts[m.MountPath] = m.Name
	}
	volumes := map[string]core.Volume{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v
	}
	if volumes[mounts["/data"]].EmptyDir == nil || volumes[mounts["/etc/caddy"]].ConfigMap.Name != all.config.Name {
		t.Errorf("the mounts are %v", mounts)
	}
	secret := volumes[mounts["/run/secrets"]].Secret
	instructions, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	command := "kubectl create secret generic " + secret.SecretName
	for _, file := range regexp.MustCompile(`[ .]/run/secrets/(\w+)[}\n]`).FindAllStringSubmatch(all.config.Data["Caddyfile"], -1) {
		command += " --from-file=" + file[1]
	}
	if !strings.Contains(string(instructions), command+"\n") {
		t.Errorf("the Caddyfile needs %s", command)
	}
}
