package policy

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/nri-supervisor/nri-supervisor/filelook"
)

// Load reads the Supervisor document and the Plugin manifests.
//
// It returns a Config also when plugin manifests are wrong: those are in Config.Invalid. The error
// is not nil only when the Supervisor document cannot be used; it is then a Problems value that
// lists everything found wrong, and the Config is nil.
//
// In a folder, files ending in .yaml or .yml are read whose name does not start with a dot; symbolic
// links are followed; a folder of such a name is a mistake. The configuration file itself is left out if it
// lies in such a folder. A relative path in pluginDirs is taken from the folder of the configuration file.
func Load(o LoadOptions) (*Config, error) {
	b := newBuilder(o)
	var config fs.FileInfo
	switch {
	case o.Supervisor != "":
		if l, err := b.lookAt(o.ConfigFile); err == nil {
			config = l.info
		}
		b.configFile(SourceFile{Path: o.ConfigFile, Data: []byte(o.Supervisor)})
		b.missing = append(b.missing, o.ConfigFile)
	case o.ConfigFile != "":
		f, info, err := b.readFile(o.ConfigFile)
		if err != nil {
			return nil, Problems{fileProblem(o.ConfigFile, err)}
		}
		config = info
		b.configFile(f)
		if p, bad := b.distrusted(f.Path); bad {
			b.usable = false
			b.problems = append(b.problems, p)
		}
	}
	paths, missing := o.PluginPaths, Error
	if paths == nil {
		paths = b.manifestDirs()
		if !b.supervisor.written("spec.pluginDirs") {
			missing = Warning
		}
	}
	for _, path := range b.listFiles(paths, missing) {
		f, info, err := b.readFile(path)
		if err != nil {
			b.hash.add(path, nil)
			b.rejectFile(fileProblem(path, err))
			continue
		}
		if config != nil && os.SameFile(config, info) {
			continue
		}
		if p, bad := b.distrusted(path); bad {
			b.hash.add(path, f.Data)
			b.rejectFile(p)
			continue
		}
		b.pluginFile(f)
	}
	return b.finish()
}

// manifestDirs are the configuration's pluginDirs, those that are relative taken from the folder of the configuration file.
func (b *builder) manifestDirs() []string {
	out := slices.Clone(b.spec.PluginDirs)
	for i, p := range out {
		if !filepath.IsAbs(p) && b.options.ConfigFile != "" {
			out[i] = filepath.Join(filepath.Dir(b.options.ConfigFile), p)
		}
	}
	return out
}

// listFiles expands folders. The result is sorted and holds each path once.
func (b *builder) listFiles(paths []string, missing Severity) []string {
	var out []string
	for _, path := range paths {
		path = filepath.Clean(path)
		l, err := b.lookAt(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			b.missing = append(b.missing, path)
			b.problems = append(b.problems, Problem{
				File: path, Severity: missing, Message: "there is no such file or folder of plugin manifests",
				Remedy: "create it, or correct the path",
			})
			continue
		case err != nil:
			b.missing = append(b.missing, path)
			b.problems = append(b.problems, fileProblem(path, err))
			continue
		case !l.info.IsDir():
			out = append(out, path)
			continue
		}
		if p, bad := b.distrusted(path); bad { // who can write to it takes manifests away as well
			b.missing = append(b.missing, path)
			b.problems = append(b.problems, p)
			continue
		}
		for _, e := range l.entries {
			name := e.Name()
			if strings.HasPrefix(name, ".") || (!strings.HasSuffix(name, ".yaml") && !strings.HasSuffix(name, ".yml")) {
				continue
			}
			out = append(out, filepath.Join(path, name))
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(a, b) })
	return slices.Compact(out)
}

// looked is what a path leads to, with the entries if that is a folder.
type looked struct {
	info    fs.FileInfo
	entries []fs.DirEntry
}

// lookAt looks at a file or folder.
func (b *builder) lookAt(path string) (looked, error) {
	return filelook.Read(b.options.Looks, path, func() (l looked, err error) {
		if l.info, err = os.Stat(path); err == nil && l.info.IsDir() {
			l.entries, err = os.ReadDir(path)
		}
		return l, err
	})
}

// readFile is the function of that name, with a limit.
func (b *builder) readFile(path string) (SourceFile, fs.FileInfo, error) {
	type read struct {
		file SourceFile
		info fs.FileInfo
	}
	got, err := filelook.Read(b.options.Looks, path, func() (r read, err error) {
		r.file, r.info, err = readFile(path)
		return r, err
	})
	return got.file, got.info, err
}

// readFile reads a regular file within the size limit. What is checked is what is read: the same descriptor.
func readFile(path string) (SourceFile, fs.FileInfo, error) {
	// Without O_NONBLOCK a named pipe would keep us waiting for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return SourceFile{}, nil, err
	}
	defer f.Close()
	return readOpen(f, path)
}

// readOpen reads an open file.
func readOpen(f *os.File, path string) (SourceFile, fs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return SourceFile{}, nil, err
	}
	if !info.Mode().IsRegular() {
		return SourceFile{}, nil, fmt.Errorf("it is not a regular file but %s", fileKind(info.Mode()))
	}
	// One byte more than allowed tells a file at the limit from one above it.
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return SourceFile{}, nil, err
	}
	return SourceFile{Path: path, Data: data}, info, nil
}

func fileKind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	default:
		return m.Type().String()
	}
}

// fileProblem says why a file cannot be read, without repeating its path.
func fileProblem(path string, err error) Problem {
	p := Problem{File: path, Message: "read the file: " + cause(err)}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.Remedy = "create it, or correct the path"
	case errors.Is(err, fs.ErrPermission):
		p.Remedy = "make it readable for the user that runs the supervisor"
	}
	return p
}

// cause is the innermost text of a file error.
func cause(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}
