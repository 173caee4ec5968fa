package target

import (
	"maps"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"cke"
	"cke/internal/golden"
)

// Each option in the URL of an S3 target changes how its client is made. One that is used elsewhere needs a test of its own.
func TestNewS3_UsesEachOption(t *testing.T) {
	made := func(o cke.S3Options) map[string]any {
		client, err := newS3(t.Context(), cke.TargetURL{Bucket: "b", S3: o}, Credentials{AccessKey: "a", SecretKey: "b"})
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]any{}
		plain(all, "", reflect.ValueOf(client.Options()))
		return all
	}
	with := cke.S3Options{Region: "one", Endpoint: "https://one.example"}
	before := made(with)
	for i := range reflect.TypeFor[cke.S3Options]().NumField() {
		changed := with
		switch f := reflect.ValueOf(&changed).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("https://two.example")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int:
			f.SetInt(7)
		default:
			t.Fatalf("set a %s in this test", f.Kind())
		}
		if maps.Equal(before, made(changed)) {
			t.Errorf("S3Options.%s changes nothing", reflect.TypeFor[cke.S3Options]().Field(i).Name)
		}
	}
}

// plain collects the strings, numbers and truths of a value, by their places in it.
func plain(all map[string]any, at string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				plain(all, at+"."+f.Name, v.Field(i))
			}
		}
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.String && !v.IsNil() {
			plain(all, at, v.Elem())
		}
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint32:
		all[at] = v.Interface()
	}
}

func TestDocs_NameEachOptionOfS3Targets(t *testing.T) {
	page := golden.Read(t, "../../docs/backup.md")
	_, faults := cke.ParseTarget("s3://bucket?unknown=1")
	if len(faults) != 1 {
		t.Fatal(faults)
	}
	names := regexp.MustCompile(`[a-z0-9_]+`).FindAllString(strings.TrimPrefix(faults[0].Remedy, "The options are "), -1)
	for _, name := range names {
		if name != "and" && !strings.Contains(page, name+"=") {
			t.Errorf("docs/backup.md does not name %s=", name)
		}
	}
}
