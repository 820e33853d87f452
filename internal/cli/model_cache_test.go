package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

const shopModel = "../../examples/models/shop.model.yaml"

func TestModelCache(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"defaults", []string{shopModel}, 0, []string{"3 x dax.t3.small, item TTL 5m, query TTL 5m, writes through the cache", "customer by id", "0.80", "stale   most of what is answered from memory is old", "of 1.5 GB on each node", "it does not pay for itself", "its nodes cost 87.60"}},
		{"skew of the model", []string{hotKeysModel}, 0, []string{"(model)"}},
		{"another skew", []string{hotKeysModel, "--skew", "0.5"}, 0, []string{"0.50 "}},
		{"no queries", []string{shopModel, "--query-ttl", "0"}, 0, []string{"with a query TTL of 0 queries are not cached"}},
		{"writes around", []string{shopModel, "--writes", "around", "--item-ttl", "0"}, 0, []string{"the cache does not see them", "eviction", "item TTL 0"}},
		{"little memory", []string{shopModel, "--cache-size", "100KB"}, 0, []string{"of 100 KB on each node", "the memory does not suffice"}},
		{"large nodes", []string{shopModel, "--node-type", "dax.r5.large", "--nodes", "1"}, 0, []string{"1 x dax.r5.large", "of 12 GB on each node", "its nodes cost 186.15"}},
		{"consistent reads", []string{"../../apps/downloads/downloads.model.yaml"}, 0, []string{"strongly consistent reads are passed through"}},
		{"unknown node type", []string{shopModel, "--node-type", "r5"}, 2, []string{"dax.r5.large"}},
		{"no nodes", []string{shopModel, "--nodes", "0"}, 2, []string{"from 1 to 11"}},
		{"no such skew", []string{shopModel, "--skew", "-1"}, 2, []string{"--skew is -1"}},
		{"no such size", []string{shopModel, "--cache-size", "much"}, 2, []string{"--cache-size is much"}},
		{"no such writes", []string{shopModel, "--writes", "back"}, 2, []string{"through or around"}},
		{"no such file", []string{"missing.model.yaml"}, 2, []string{"cannot read the model"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := runStator(t, append([]string{"model", "cache"}, c.args...)...)
			if code != c.code {
				t.Errorf("the exit code is %d, want %d: %s", code, c.code, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stdout+stderr, want) {
					t.Errorf("%q is not in\n%s%s", want, stdout, stderr)
				}
			}
		})
	}
}

// The JSON has all patterns, with those that write.
func TestModelCacheJSON(t *testing.T) {
	code, stdout, stderr := runStator(t, "model", "cache", shopModel, "--json", "--writes", "around", "--item-ttl", "0", "--cache-size", "1MB")
	var got struct {
		File        string
		Writes      string
		MemoryBytes float64
		NodeDollars float64
		Patterns    []struct {
			Name, Verdict string
			HitRate       float64
			StaleForever  bool
		}
	}
	if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil {
		t.Fatal(code, err, stderr)
	}
	if got.File != shopModel || got.Writes != "around" || got.MemoryBytes != 1<<20 || got.NodeDollars == 0 || len(got.Patterns) != 21 {
		t.Errorf("%+v", got)
	}
	forever := 0
	for _, p := range got.Patterns {
		if p.StaleForever {
			forever++
		}
	}
	if forever == 0 {
		t.Errorf("no pattern is stale until eviction: %+v", got.Patterns)
	}
}
