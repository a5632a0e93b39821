#include "core/run_folder/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <utility>

#include "core/base/read_file.hpp"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kForLeaving{3};
constexpr std::chrono::milliseconds kLook{50};

std::string path_of(const std::string& folder) {
  return (std::filesystem::path(folder) / ".lock").string();
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.data();
}

/// Whether the open file is still the one of this name: a run that was refused removes its lock.
bool is_named(int fd, const std::string& path) {
  struct stat open {};
  struct stat named {};
  return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

}  // namespace

Result<RunLock> RunLock::take(const std::string& folder, const std::string& token) {
  const std::string path = path_of(folder);
  RunLock lock(open_own(path, O_RDWR | O_CREAT), folder);
  if (lock.fd_ < 0) {
    const bool odd = errno == ELOOP || errno == EINVAL || errno == ENXIO;
    return invalid("--out " + folder + ": .lock: " +
                   (odd ? "it is a link, a pipe or a device: remove it" : std::strerror(errno)));
  }
  // The processes of a launcher that was killed end a moment after it.
  const auto until = std::chrono::steady_clock::now() + kForLeaving;
  bool taken = false, held = true;
  while (!taken && held) {
    taken = ::flock(lock.fd_, LOCK_EX | LOCK_NB) == 0;
    held = !taken && (errno == EWOULDBLOCK || errno == EINTR);
    if (!held || std::chrono::steady_clock::now() >= until) break;
    std::this_thread::sleep_for(kLook);
  }
  if (held) {
    const std::string owner = read_lock(folder);
    return invalid("--out " + folder + " is in use by another run (" +
                   owner.substr(0, owner.find('\n')) +
                   "): wait until it has ended, or choose another folder");
  }
  if (!is_named(lock.fd_, path)) {
    return invalid("--out " + folder + " was left by another run at this moment: try again");
  }
  const std::string text =
      "process " + std::to_string(::getpid()) + " on " + host_name() + "\n" + token + "\n";
  if (::ftruncate(lock.fd_, 0) != 0 ||
      ::pwrite(lock.fd_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return Error{ErrorKind::Device, "cannot write " + path + ": " + std::strerror(errno),
                 std::nullopt};
  }
  return lock;
}

RunLock::RunLock(RunLock&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), folder_(std::move(other.folder_)) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(folder_, other.folder_);
  return *this;
}

Result<void> RunLock::check() const {
  if (is_named(fd_, path_of(folder_))) return {};
  return Error{ErrorKind::Device,
               "--out " + folder_ +
                   " was removed or moved while the run wrote into it: put it back "
                   "and go on with --resume auto, or begin again",
               std::nullopt};
}

RunLock::~RunLock() {
  if (fd_ >= 0) ::close(fd_);
}

std::string read_lock(const std::string& folder) {
  std::ifstream in = open_file(path_of(folder));
  constexpr std::size_t kMost = 1024;
  std::string text(kMost, '\0');
  in.read(text.data(), kMost);
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

bool holder_has_ended(const std::string& folder) {
  std::istringstream words(read_lock(folder));
  std::string process, on, host;
  long pid = 0;
  if (!(words >> process >> pid >> on >> host) || pid <= 0 || host != host_name()) return false;
  return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

}  // namespace lockstep
