package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/pulumi/pulumi/sdk/v3/go/common/encoding"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/config"
	"github.com/pulumi/pulumi/sdk/v3/go/common/workspace"
	"sigs.k8s.io/yaml"
)

func pulumi(doc string) (out string) {
	defer func() {
		if r := recover(); r != nil {
			out = fmt.Sprint("PANIC ", r)
		}
	}()
	p := &workspace.Project{Name: "triplane"}
	s, err := workspace.LoadProjectStackBytes(nil, p, []byte(doc), "Pulumi.x.yaml", encoding.YAML)
	if err != nil {
		return "ERROR " + err.Error()
	}
	v, ok, err := s.Config.Get(config.MustMakeKey("triplane", "x"), false)
	if err != nil || !ok {
		return fmt.Sprint("ERROR ", err, ok)
	}
	t, err := v.Value(config.NopDecrypter)
	if err != nil {
		return "ERROR " + err.Error()
	}
	return fmt.Sprint(v.Object(), v.Secure(), " ", t)
}

func main() {
	sc := bufio.NewScanner(os.Stdin)
	for sc.Scan() {
		var t string
		json.Unmarshal(sc.Bytes(), &t)
		j, err := yaml.YAMLToJSON([]byte(t))
		k := string(j)
		if err != nil {
			k = "ERROR " + err.Error()
		}
		o, _ := json.Marshal([]string{t, pulumi("config:\n  x:\n    " + indent(t) + "\n"), k})
		fmt.Println(string(o))
	}
}

func indent(s string) string {
	r := ""
	for _, c := range s {
		r += string(c)
		if c == '\n' {
			r += "    "
		}
	}
	return r
}
