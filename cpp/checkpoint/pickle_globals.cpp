#include "checkpoint/pickle_globals.h"

#include <algorithm>
#include <iterator>

namespace sam_rlx {
namespace {

// A module with all that is in it, or one global of a module whose name others use too.
constexpr std::string_view kRefused[] = {
    // Builtins, and modules that reach them or make code.
    "__builtin__",
    "__builtins__",
    "_io",
    "_operator",
    "ast",
    "bdb",
    "builtins",
    "cProfile",
    "code.InteractiveConsole",
    "code.InteractiveInterpreter",
    "code.interact",
    "codeop",
    "doctest",
    "functools",
    "gc",
    "imp",
    "importlib",
    "inspect",
    "io",
    "linecache",
    "operator",
    "pdb",
    "pkgutil",
    "profile.run",
    "profile.runctx",
    "pydoc",
    "runpy",
    "site.main",
    "sys",
    "timeit",
    "trace.Trace",
    "types",
    "zipimport",
    // Other pickles.
    "_pickle",
    "cPickle",
    "cloudpickle",
    "dill",
    "joblib",
    "marshal",
    "numpy.load",
    "numpy.loads",
    "numpy.ma.core.loads",
    "pandas.eval",
    "pandas.io.pickle",
    "pandas.read_pickle",
    "pickle",
    "pickletools",
    "shelve",
    "torch.hub",
    "torch.jit",
    "torch.load",
    "torch.package",
    "torch.serialization",
    "torch.storage._load_from_bytes",
    "yaml",
    // Programs, processes, threads, signals, machine code.
    "_ctypes",
    "_posixsubprocess",
    "_thread",
    "_winapi",
    "asyncio",
    "atexit",
    "cffi",
    "commands.getoutput",
    "commands.getstatusoutput",
    "concurrent",
    "ctypes",
    "distutils",
    "multiprocessing",
    "nt",
    "numpy.distutils",
    "numpy.f2py",
    "numpy.testing",
    "os",
    "pip",
    "platform.popen",
    "popen2",
    "posix",
    "pty",
    "setuptools",
    "signal",
    "subprocess",
    "threading",
    "torch._dynamo",
    "torch._inductor",
    "torch.compile",
    "torch.distributed.rpc",
    "torch.fx",
    "torch.utils.cpp_extension",
    "webbrowser",
    "winreg",
    // Files and the network.
    "_socket",
    "aiohttp",
    "codecs.open",
    "fileinput",
    "ftplib",
    "http",
    "httplib",
    "poplib",
    "requests",
    "shutil",
    "smtplib",
    "socket",
    "socketserver",
    "sqlite3",
    "ssl",
    "tarfile",
    "telnetlib",
    "tempfile",
    "urllib",
    "urllib2",
    "xmlrpc",
    "zipfile",
};

// The types among them, which data needs, and what Python makes of type annotations.
constexpr std::string_view kTakenBuiltins[] = {
    "Ellipsis", "NotImplemented", "bool", "bytearray", "bytes", "complex", "dict",
    "float",    "frozenset",      "int",  "list",      "long",  "object",  "range",
    "set",      "slice",          "str",  "tuple",     "type",  "unicode", "xrange",
};
constexpr std::string_view kTaken[] = {
    "functools.partial",
    "functools.reduce",
    "io.BytesIO",
    "io.StringIO",
    "_io.BytesIO",
    "_io.StringIO",
    "operator.getitem",
    "_operator.getitem",
    "operator.or_",
    "_operator.or_",
    "torch._dynamo.decorators._DimRange",  // of jagged tensors
    "torch.serialization._get_layout",
    "types.GenericAlias",
    "types.MappingProxyType",
    "types.NoneType",
    "types.SimpleNamespace",
    "types.UnionType",
};

bool lies_in(std::string_view global, std::string_view module) {
  return global.starts_with(module) &&
         (global.size() == module.size() || global[module.size()] == '.');
}

bool has_dunder_part(std::string_view global) {
  constexpr std::string_view kMark = "__";
  for (std::size_t dot = global.find('.'); dot != std::string_view::npos;) {
    const std::size_t end = global.find('.', dot + 1);
    const std::string_view part = global.substr(dot + 1, end - dot - 1);
    if (part.size() > 4 && part.starts_with(kMark) && part.ends_with(kMark)) return true;
    dot = end;
  }
  return false;
}

bool is_taken(std::string_view global) {
  for (const std::string_view builtins : {"builtins.", "__builtin__."}) {
    if (global.starts_with(builtins)) {
      const std::string_view name = global.substr(builtins.size());
      return std::find(std::begin(kTakenBuiltins), std::end(kTakenBuiltins), name) !=
             std::end(kTakenBuiltins);
    }
  }
  return std::find(std::begin(kTaken), std::end(kTaken), global) != std::end(kTaken);
}

}  // namespace

bool could_run_code(std::string_view global) {
  if (has_dunder_part(global)) return true;
  const bool refused =
      std::any_of(std::begin(kRefused), std::end(kRefused),
                  [&](std::string_view module) { return lies_in(global, module); });
  return refused && !is_taken(global);
}

bool is_getattr(std::string_view global) {
  return global == "builtins.getattr" || global == "__builtin__.getattr";
}

}  // namespace sam_rlx
