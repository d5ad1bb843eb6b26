package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/config"
	"github.com/pulumi/pulumi/sdk/v3/go/common/workspace"
)

// Prints what the program would find in PULUMI_CONFIG: each key of a stack file as text.
func main() {
	project, err := workspace.LoadProject(os.Args[1])
	if err != nil {
		panic(err)
	}
	stack, err := workspace.LoadProjectStack(nil, project, os.Args[2])
	if err != nil {
		panic(err)
	}
	out := map[string]string{}
	for key, value := range stack.Config {
		text, err := value.Value(config.NopDecrypter)
		if err != nil {
			panic(err)
		}
		out[key.String()] = text
	}
	text, _ := json.MarshalIndent(out, "", "  ")
	fmt.Println(string(text))
}
