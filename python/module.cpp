// lockstep._lockstep: api/ for the Python package in python/lockstep, with numpy arrays for
// timelines and memory; figures and answers are JSON texts. Faults become exceptions of type
// lockstep.Error. python/lockstep/_lockstep.pyi lists what is here.
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "lockstep/lockstep.hpp"

namespace py = pybind11;
namespace api = lockstep::api;

namespace {

struct Failure {
  std::vector<api::Fault> faults;
};

template <class T>
T value_of(api::Result<T> result) {
  if (!result) throw Failure{result.faults()};
  return std::move(*result);
}

/// An array that shows a column of `owner`, which it keeps alive.
template <class T>
py::array column(const std::vector<T>& values, py::handle owner) {
  py::array_t<T> array({static_cast<py::ssize_t>(values.size())}, values.data(), owner);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

template <class Owner, class T>
auto shown(const std::vector<T> Owner::*member) {
  return [member](py::object self) { return column(self.cast<const Owner&>().*member, self); };
}

const char* name_of(api::FaultKind kind) {
  constexpr const char* kNames[] = {"parse",  "invalid_spec", "unsupported", "out_of_memory",
                                    "device", "expectation",  "internal"};
  return kNames[static_cast<int>(kind)];
}

void add_errors(py::module_& m) {
  py::class_<api::Fault>(m, "Fault", "One thing that is wrong, and where the user wrote it.")
      .def_property_readonly("kind", [](const api::Fault& f) { return name_of(f.kind); })
      .def_readonly("message", &api::Fault::message)
      .def_readonly("file", &api::Fault::file)
      .def_readonly("line", &api::Fault::line)
      .def_readonly("column", &api::Fault::column)
      .def(py::pickle(
          [](const api::Fault& f) {
            return py::make_tuple(static_cast<int>(f.kind), f.message, f.file, f.line, f.column);
          },
          [](const py::tuple& t) {
            return api::Fault{static_cast<api::FaultKind>(t[0].cast<int>()),
                              t[1].cast<std::string>(), t[2].cast<std::string>(), t[3].cast<int>(),
                              t[4].cast<int>()};
          }))
      .def("__str__", [](const api::Fault& f) { return api::to_string(f); })
      .def("__repr__", [](const api::Fault& f) { return "<Fault " + api::to_string(f) + ">"; });
  static const py::object error = py::reinterpret_steal<py::object>(
      PyErr_NewExceptionWithDoc("lockstep.Error",
                                "What is wrong, all of it; `faults` has the parts, and `training` "
                                "what train() came to before.",
                                PyExc_ValueError, nullptr));
  error.inc_ref();  // it outlives the interpreter's end
  error.attr("faults") = py::list();
  error.attr("training") = py::none();
  m.attr("Error") = error;
  py::register_exception_translator([](std::exception_ptr thrown) {  // NOLINT: its signature
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Failure& failure) {
      const py::object instance = error(api::to_string(failure.faults));
      instance.attr("faults") = failure.faults;
      PyErr_SetObject(error.ptr(), instance.ptr());
    }
  });
}

void add_scenario_and_program(py::module_& m) {
  using Released = py::call_guard<py::gil_scoped_release>;
  py::class_<api::Scenario>(m, "Scenario", "What is trained, where and how.")
      .def_static(
          "parse_sweep",
          [](const std::string& text, const std::vector<std::string>& set,
             const std::string& file) {
            return value_of(api::Scenario::parse_sweep(text, set, file));
          },
          py::arg("text"), py::arg("set"), py::arg("file"), "Every point of a text's [sweep].")
      .def_property_readonly("label", &api::Scenario::label)
      .def_property_readonly("text", &api::Scenario::text)
      .def_property_readonly("ranks", &api::Scenario::ranks)
      .def_property_readonly("warnings", &api::Scenario::warnings);
  py::class_<api::MemoryNeed>(m, "MemoryNeed", "Memory of the rank that needs most, in bytes.")
      .def_readonly("arena", &api::MemoryNeed::arena)
      .def_readonly("allocated", &api::MemoryNeed::allocated)
      .def_readonly("process", &api::MemoryNeed::process)
      .def_readonly("available", &api::MemoryNeed::available);
  py::class_<api::Program>(m, "Program", "What every rank does in a step.")
      .def_static("parse",
                  [](const std::string& text) { return value_of(api::Program::parse(text)); })
      .def_property_readonly("text", &api::Program::text)
      .def_property_readonly("hash", &api::Program::hash)
      .def_property_readonly("ranks", &api::Program::ranks)
      .def_property_readonly("ops", &api::Program::ops)
      .def("verify", &api::Program::verify, Released(), "What is wrong with it.")
      .def("memory", &api::Program::memory, py::arg("scenario"));
  m.def(
      "lower",
      [](const api::Scenario& scenario) { return value_of(api::Program::lower(scenario)); },
      py::arg("scenario"), Released(), "A scenario as a program, verified.");
}

void add_runs(py::module_& m) {
  using Released = py::call_guard<py::gil_scoped_release>;
  using T = api::Timeline;
  py::class_<T>(m, "Timeline", "Spans as columns; times are picoseconds.")
      .def_property_readonly("step", shown(&T::step))
      .def_property_readonly("rank", shown(&T::rank))
      .def_property_readonly("stream", shown(&T::stream))
      .def_property_readonly("name", shown(&T::name))
      .def_property_readonly("kind", shown(&T::kind))
      .def_property_readonly("stage", shown(&T::stage))
      .def_property_readonly("microbatch", shown(&T::microbatch))
      .def_property_readonly("layer", shown(&T::layer))
      .def_property_readonly("begin_ps", shown(&T::begin_ps))
      .def_property_readonly("active_ps", shown(&T::active_ps))
      .def_property_readonly("end_ps", shown(&T::end_ps))
      .def_property_readonly("bytes", shown(&T::bytes))
      .def_property_readonly("same_as", shown(&T::same_as))
      .def_readonly("names", &T::names)
      .def_readonly("streams", &T::streams)
      .def_readonly("ranks", &T::ranks)
      .def("__len__", [](const T& t) { return t.begin_ps.size(); });
  using M = api::MemoryTimeline;
  py::class_<M>(m, "MemoryTimeline", "Memory after each event: rows of bytes by kind.")
      .def_property_readonly("rank", shown(&M::rank))
      .def_property_readonly("time_ps", shown(&M::time_ps))
      .def_property_readonly("bytes",
                             [](const py::object& self) {
                               const M& memory = self.cast<const M&>();
                               return column(memory.bytes, self)
                                   .attr("reshape")(memory.rank.size(), memory.kinds.size());
                             })
      .def_readonly("kinds", &M::kinds)
      .def("__len__", [](const M& memory) { return memory.rank.size(); });
  py::class_<api::Run>(m, "Run", "A step that was simulated or recorded.")
      .def("timeline", &api::Run::timeline, Released())
      .def("memory", &api::Run::memory, Released())
      .def("report_json", &api::Run::report_json, Released())
      .def(
          "save",
          [](const api::Run& run, const std::string& folder) {
            if (auto faults = run.save(folder); !faults.empty()) throw Failure{faults};
          },
          py::arg("folder"), Released(), "Writes a run folder, which open() reads.")
      .def(
          "write_trace",
          [](const api::Run& run, const std::string& path) {
            if (auto faults = run.write_trace(path); !faults.empty()) throw Failure{faults};
          },
          py::arg("path"), Released(), "For Perfetto; compressed if the name ends in .gz.");
  m.def(
      "open", [](const std::string& path) { return value_of(api::Run::open(path)); },
      py::arg("path"), Released(), "A run folder, or a trace of Lockstep's or PyTorch's.");
  m.def(
      "simulate",
      [](const api::Scenario& scenario, bool limited) {
        return value_of(api::simulate(scenario, limited));
      },
      py::arg("scenario"), py::arg("limited"), Released(),
      "One step of a scenario; unless `limited`, whether it fits or not.");
}

py::dict dict_of(const api::TrainingStep& s) {
  py::dict step;
  step["step"] = s.step;
  step["last"] = s.last;
  step["loss"] = s.loss;
  step["grad_norm"] = s.grad_norm;
  step["lr"] = s.lr;
  step["time_s"] = s.time_s;
  if (s.validation_loss) step["validation_loss"] = *s.validation_loss;
  return step;
}

/// What is raised after a step, by `on_step` or by Ctrl-C, ends the training in order first.
api::Training train(const api::Scenario& scenario, api::TrainingOptions options,
                    const py::function& on_step) {
  std::exception_ptr raised;
  options.on_step = [&](const api::TrainingStep& step) {
    if (raised) return false;
    const py::gil_scoped_acquire locked;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      return !on_step(dict_of(step)).is(py::bool_(false));
    } catch (const py::error_already_set&) {
      raised = std::current_exception();
      return false;
    }
  };
  auto training = [&] {
    const py::gil_scoped_release released;
    return api::train(scenario, options);
  }();
  if (raised) std::rethrow_exception(raised);
  return value_of(std::move(training));
}

void add_training(py::module_& m) {
  using T = api::Training;
  py::class_<T>(m, "Training", "A scenario that was trained.")
      .def_property_readonly("steps",
                             [](const T& training) {
                               py::list steps;
                               for (const auto& step : training.steps) steps.append(dict_of(step));
                               return steps;
                             })
      .def_readonly("notes", &T::notes)
      .def_property_readonly("ending",
                             [](const T& training) {
                               constexpr const char* kNames[] = {"done", "stopped", "diverged"};
                               return kNames[static_cast<int>(training.end)];
                             })
      .def_readonly("diverged", &T::diverged)
      .def_readonly("run", &T::run);
  m.def(
      "train",
      [](const api::Scenario& scenario, const std::string& backend, const std::string& folder,
         const std::string& resume, int steps, int threads, const std::vector<std::string>& accept,
         const py::function& on_step) {
        return train(scenario, {backend, folder, resume, steps, threads, accept, {}}, on_step);
      },
      py::arg("scenario"), py::arg("backend"), py::arg("folder"), py::arg("resume"),
      py::arg("steps"), py::arg("threads"), py::arg("accept"), py::arg("on_step"),
      "Trains a scenario on this machine.");
}

void add_questions(py::module_& m) {
  using Released = py::call_guard<py::gil_scoped_release>;
  m.def(
      "search_json",
      [](const api::Scenario& scenario, const std::vector<std::string>& only, double seconds,
         int threads, int finalists) {
        return value_of(api::search_json(scenario, {only, seconds, threads, finalists}));
      },
      py::arg("scenario"), py::arg("only"), py::arg("seconds"), py::arg("threads"),
      py::arg("finalists"), Released());
  m.def(
      "recommend_json",
      [](const std::string& model, const std::string& cluster, int nodes, int batch, int seq_len,
         bool offload, int lora, double seconds, int threads) {
        return value_of(api::recommend_json(
            {model, cluster, nodes, batch, seq_len, offload, lora, seconds, threads}));
      },
      py::arg("model"), py::arg("cluster"), py::arg("nodes"), py::arg("batch"), py::arg("seq_len"),
      py::arg("offload"), py::arg("lora"), py::arg("seconds"), py::arg("threads"), Released());
  m.def("compare_json", &api::compare_json, py::arg("a"), py::arg("b"), Released());
  m.def(
      "collective_json",
      [](const std::string& kind, const std::string& bytes, const std::string& cluster, int nodes,
         int ranks, bool sweep) {
        return value_of(api::collective_json({kind, bytes, cluster, nodes, ranks, sweep}));
      },
      py::arg("kind"), py::arg("bytes"), py::arg("cluster"), py::arg("nodes"), py::arg("ranks"),
      py::arg("sweep"), Released());
  m.def(
      "validate_json",
      [](const std::string& file, const std::string& source, const std::string& row,
         const std::vector<std::string>& set, int threads, bool rows,
         const std::function<void(std::size_t, std::size_t)>& progress) {
        return value_of(api::validate_json(file, {source, row, set, threads, rows, progress}));
      },
      py::arg("file"), py::arg("source"), py::arg("row"), py::arg("set"), py::arg("threads"),
      py::arg("rows"), py::arg("progress"), Released());
  m.def(
      "import_json",
      [](const std::string& trainer, const std::string& file, const std::string& model,
         const std::string& cluster, int nodes, int seq_len) {
        return value_of(api::import_json(trainer, file, {model, cluster, nodes, seq_len}));
      },
      py::arg("trainer"), py::arg("file"), py::arg("model"), py::arg("cluster"), py::arg("nodes"),
      py::arg("seq_len"));
  m.def(
      "export_json",
      [](const std::string& trainer, const api::Scenario& scenario) {
        return value_of(api::export_json(trainer, scenario));
      },
      py::arg("trainer"), py::arg("scenario"));
  m.def("models_json", &api::models_json);
  m.def("clusters_json", &api::clusters_json);
}

}  // namespace

PYBIND11_MODULE(_lockstep, m) {
  m.doc() = "What the package lockstep stands on.";
  m.attr("__version__") = api::version();
  add_errors(m);
  add_scenario_and_program(m);
  add_runs(m);
  add_training(m);
  add_questions(m);
}
