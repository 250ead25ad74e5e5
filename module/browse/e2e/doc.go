// Package e2e tests the page that `browse` serves in headless Chromium, as people
// use it. It needs node, npm and Chromium, and is skipped unless it is asked for:
//
//	SKILL_BRIDGE_BROWSER_TESTS=1 go test ./module/browse/e2e
//
// The browser is the first of chromium, chromium-browser and google-chrome that is
// found, or what CHROMIUM names. Screenshots are left in the folder that
// SKILL_BRIDGE_SCREENSHOTS names. What npm installs (package-lock.json pins it)
// goes into a temporary folder.
package e2e
