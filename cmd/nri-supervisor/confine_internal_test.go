package main

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nri-supervisor/nri-supervisor/isolation"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// otherValues are what a leaf of a manifest could be instead.
func otherValues(path string, v reflect.Value) []reflect.Value {
	words := func(w string) reflect.Value { return reflect.ValueOf([]string{w}) }
	if all, ok := reflect.TypeAssert[interface{ Values() []string }](v); ok && v.Kind() == reflect.String {
		var out []reflect.Value
		for _, s := range all.Values() {
			out = append(out, reflect.ValueOf(s).Convert(v.Type()))
		}
		return out
	}
	switch v.Interface().(type) {
	case *resource.Quantity:
		return []reflect.Value{reflect.ValueOf(resource.NewQuantity(77, resource.DecimalSI))}
	case []string:
		switch {
		case strings.Contains(path, "Groups"):
			return []reflect.Value{words("2000")}
		case strings.Contains(path, "Capabilities"):
			return []reflect.Value{words("CHOWN"), words("NET_ADMIN")}
		}
		return []reflect.Value{words("/srv/other")}
	}
	switch v.Kind() {
	case reflect.String:
		return []reflect.Value{reflect.ValueOf("1000").Convert(v.Type())}
	case reflect.Bool:
		return []reflect.Value{reflect.ValueOf(!v.Bool()).Convert(v.Type())}
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return []reflect.Value{reflect.ValueOf(77).Convert(v.Type())}
	case reflect.Slice:
		return []reflect.Value{reflect.MakeSlice(v.Type(), 1, 1)}
	default:
		return nil
	}
}

// eachOther calls visit with the plugin once for each other value of each leaf below v, and undoes it afterwards.
func eachOther(path string, v reflect.Value, visit func(path string)) {
	_, quantity := reflect.TypeAssert[*resource.Quantity](v)
	switch {
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct && !quantity:
		was := v.Interface()
		v.Set(reflect.New(v.Type().Elem()))
		if old := reflect.ValueOf(was); !old.IsNil() {
			v.Elem().Set(old.Elem())
		}
		eachOther(path, v.Elem(), visit)
		v.Set(reflect.ValueOf(was))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				eachOther(path+"."+f.Name, v.Field(i), visit)
			}
		}
	default:
		was := reflect.ValueOf(v.Interface())
		for _, other := range otherValues(path, v) {
			v.Set(other)
			visit(path)
			if was.IsValid() {
				v.Set(was)
			} else {
				v.SetZero()
			}
		}
	}
}

func TestAPluginIsConfinedAnewWheneverSomethingOfItsConfinementChanges(t *testing.T) {
	t.Parallel()
	spec, defaults := policy.DefaultSpecs()
	confine := newConfinements(&spec, nil)
	confine.root = true
	// None of these depends on the manifest.
	seen := map[string]bool{"Cgroup": true, "OOMScore": true, "Written": true} // the last is what all manifests list
	for _, profile := range []policy.Profile{policy.ProfileNone, policy.ProfileStandard, policy.ProfileStrict} {
		for _, user := range []string{"", "0"} {
			was := policy.Plugin{Name: "p", Team: "t", Spec: defaults, FileTrust: policy.TrustStrict}
			was.Spec.Sandbox.Profile, was.Spec.Sandbox.User = profile, user
			is := was
			before, err := confine.of(&was)
			if err != nil {
				t.Fatal(err)
			}
			eachOther("Plugin", reflect.ValueOf(&is).Elem(), func(path string) {
				after, err := confine.of(&is)
				differs := err != nil
				for i := range reflect.TypeFor[isolation.Confinement]().NumField() {
					name := reflect.TypeFor[isolation.Confinement]().Field(i).Name
					if err == nil && !reflect.DeepEqual(reflect.ValueOf(before).Field(i).Interface(), reflect.ValueOf(after).Field(i).Interface()) {
						seen[name], differs = true, true
					}
				}
				if differs && policy.SameProcess(&was, &is) {
					t.Errorf("profile %s, user %q: another %s changes the confinement, and the process stays (%v)", profile, user, path, err)
				}
			})
			if !policy.SameProcess(&was, &is) {
				t.Fatal("the plugin is not what it was before")
			}
		}
	}
	for f := range reflect.TypeFor[isolation.Confinement]().Fields() {
		if !seen[f.Name] {
			t.Errorf("nothing that was tried changes %s of the confinement: add what does", f.Name)
		}
	}
}
