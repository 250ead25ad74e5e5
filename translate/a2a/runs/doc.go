// Package runs follows the runs of tasks, also after the request that began them has ended, and gives each task the state of its run.
// While a provider can't be reached, it tries again.
package runs
