// Package common is shared by the jobs: the server's address, waiting for a condition, and ending a
// job.
package common

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

const patience = 120 * time.Second

// Address is the server's address in the form that libraries expect.
func Address() string {
	return net.JoinHostPort(os.Getenv("NAGI_HOST"), os.Getenv("NAGI_PORT"))
}

// Until waits until condition is true.
func Until(what string, condition func() bool) {
	end := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(end) {
			Fail("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Fail ends the job.
func Fail(format string, values ...any) {
	fmt.Printf(format+"\n%s\n", append(values, debug.Stack())...)
	os.Exit(1)
}

// Check expects no error.
func Check(err error) {
	if err != nil {
		Fail("unexpected error: %v", err)
	}
}

// Must returns the value of a call that is expected to have no error.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Equal expects two values to be the same.
func Equal[T comparable](what string, got, wanted T) {
	if got != wanted {
		Fail("%s: got %v, not %v", what, got, wanted)
	}
}

// Says expects an error with this text.
func Says(err error, text string) {
	if err == nil || !strings.Contains(err.Error(), text) {
		Fail("got error %v, not %s", err, text)
	}
}

// Is expects this error.
func Is(err, wanted error) {
	if !errors.Is(err, wanted) {
		Fail("got error %v, not %v", err, wanted)
	}
}
