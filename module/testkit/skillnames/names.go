// Package skillnames has names of skills for tests.
package skillnames

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

var words = strings.Fields(`weather forecast invoice create payment refund translate summarize calendar event search image resize report
	ticket close customer lookup order track shipment parse extract convert csv json pdf qr code diff merge user account balance transfer mail send
	sms notify schedule cancel book room flight hotel car rental price quote stock news sentiment classify detect language spell check`)

// Names returns names like those of large catalogs, sorted, n of them.
func Names(r *rand.Rand, n int) []string {
	word := func() string { return words[r.IntN(len(words))] }
	known := map[string]bool{}
	for len(known) < n {
		name := "acme."
		switch r.IntN(5) {
		case 0:
			name += word() + "." + word() + "-" + word()
		case 1:
			name += word() + "_" + word() + "_" + word()
		case 2:
			name += word() + "/" + strings.ToUpper(word()[:1]) + word() + strconv.Itoa(r.IntN(50))
		case 3:
			name += "com.example." + word() + "-" + word() + "-v" + strconv.Itoa(r.IntN(9))
		default:
			name += fmt.Sprintf("skill-%05d", r.IntN(100_000))
		}
		known[name] = true
	}
	list := make([]string, 0, n)
	for name := range known {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
