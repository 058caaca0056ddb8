package merge

import (
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// audit is the embedded validator: it learns the owners, and lets the members
// that validate judge.
func (ev *event) audit(req *api.ValidateContainerAdjustmentRequest) {
	ev.owners = ev.ownersByName(req.GetOwners())
	if !ev.hasValidators() {
		return
	}

	judged := &api.ValidateContainerAdjustmentRequest{
		Pod:       req.GetPod(),
		Container: req.GetContainer(),
		// The adaptation returns this very adjustment, and a validator that is
		// given up may still be reading it then.
		Adjust: proto.CloneOf(req.GetAdjust()),
		Update: ev.mergedUpdates(),
		Owners: ev.owners,
	}
	var judges []int
	for place, member := range ev.order {
		if m := ev.members[member]; !ev.slots[place].out {
			judged.Plugins = append(judged.Plugins, &api.PluginInstance{Name: m.Name, Index: m.Index})
		}
		if ev.members[member].Validates {
			judges = append(judges, member)
		}
	}

	rejections := make([]*Rejection, len(judges))
	each(len(judges), func(i int) {
		if reason, ok := ev.validate(judges[i], judged); !ok {
			rejections[i] = &Rejection{Member: judges[i], Reason: reason}
		}
	})
	for _, r := range rejections {
		if r != nil {
			ev.rejection = r
			return
		}
	}
}

// ownersByName puts members' names for the names that the adaptation knows.
func (ev *event) ownersByName(owners *api.OwningPlugins) *api.OwningPlugins {
	named := api.NewOwningPlugins()
	for id, from := range owners.GetOwners() {
		to := api.NewFieldOwners()
		for field, owner := range from.GetSimple() {
			to.Simple[field] = ev.ownerByName(owner)
		}
		for field, entries := range from.GetCompound() {
			named := api.NewCompoundFieldOwners()
			for key, owner := range entries.GetOwners() {
				named.Owners[key] = ev.ownerByName(owner)
			}
			to.Compound[field] = named
		}
		named.Owners[id] = to
	}
	return named
}

// ownerByName translates one owner: a name, a name marked as having removed
// something, or several names with commas in between (hooks).
func (ev *event) ownerByName(owner string) string {
	parts := strings.Split(owner, ",")
	for i, part := range parts {
		name, marked := api.IsMarkedForRemoval(part)
		if place, ok := placeOf(name); ok && place < len(ev.order) {
			name = ev.at(place).Name
		}
		if marked {
			name = api.MarkForRemoval(name)
		}
		parts[i] = name
	}
	return strings.Join(parts, ",")
}

// ownersFromReplies tells the owners without asking the adaptation.
func (ev *event) ownersFromReplies() *api.OwningPlugins {
	c := ev.claimsBefore(len(ev.order))
	owners := api.NewOwningPlugins()
	of := func(id string) *api.FieldOwners {
		if owners.Owners[id] == nil {
			owners.Owners[id] = api.NewFieldOwners()
		}
		return owners.Owners[id]
	}
	for key, owner := range c.fields {
		name := ev.at(owner.place).Name
		if owner.cleared {
			name = api.MarkForRemoval(name)
		}
		o := of(key.Container)
		if !compound(key.Field) {
			o.Simple[key.Field.Key()] = name
			continue
		}
		if o.Compound[key.Field.Key()] == nil {
			o.Compound[key.Field.Key()] = api.NewCompoundFieldOwners()
		}
		o.Compound[key.Field.Key()].Owners[key.Key] = name
	}
	for id, places := range c.hooks {
		names := make([]string, len(places))
		for i, place := range places {
			names[i] = ev.at(place).Name
		}
		of(id).Simple[api.Field_OciHooks.Key()] = strings.Join(names, ",")
	}
	return owners
}

// compound tells whether NRI tells the entries of a field apart.
func compound(f api.Field) bool {
	return slices.Contains([]api.Field{
		api.Field_Annotations, api.Field_Mounts, api.Field_Devices, api.Field_CdiDevices, api.Field_Env,
		api.Field_HugepageLimits, api.Field_CgroupsUnified, api.Field_Rlimits, api.Field_Namespace,
		api.Field_Sysctl, api.Field_LinuxNetDevices,
	}, f)
}
