// Command pulumi-resource-kubernetes is the upstream provider. Upstream's own main package embeds a schema that is
// generated in its repository and missing from the module; the schema answers only GetSchema, which deployments never call.
package main

import "github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"

// version is set at link time.
var version string

func main() {
	provider.Serve("kubernetes", version, []byte("{}"), []byte("{}"))
}
