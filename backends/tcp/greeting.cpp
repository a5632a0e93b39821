#include "backends/tcp/greeting.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::tcp {

Greeting::Greeting(std::string secret, const Nonce& nonce) : secret_(std::move(secret)) {
  challenge_.nonce = nonce;
}

std::size_t Greeting::wanted() const {
  const std::size_t whole = state_ == State::Silent  ? sizeof(Hello)
                            : state_ == State::Asked ? sizeof(Digest)
                                                     : 0;
  return whole - come_.size();
}

std::vector<std::byte> Greeting::take(std::span<const std::byte> bytes) {
  come_.insert(come_.end(), bytes.begin(), bytes.end());
  if (state_ == State::Silent) {
    // What does not begin as our messages do is not waited for.
    const std::size_t begun = std::min(come_.size(), kMagic.size());
    if (std::memcmp(come_.data(), kMagic.data(), begun) != 0) state_ = State::Stranger;
  }
  if (state_ == State::Stranger) come_.clear();
  if (wanted() > 0 || come_.empty()) return {};
  if (state_ == State::Silent) {
    std::memcpy(&hello_, come_.data(), sizeof hello_);
    challenge_.proof = proof_of(secret_, "listener", hello_, challenge_.nonce);
    state_ = State::Asked;
    come_.clear();
    std::vector<std::byte> answer(sizeof challenge_);
    std::memcpy(answer.data(), &challenge_, sizeof challenge_);
    return answer;
  }
  Digest proof{};
  std::memcpy(proof.data(), come_.data(), proof.size());
  come_.clear();
  const bool knows = same(proof, proof_of(secret_, "joiner", hello_, challenge_.nonce));
  state_ = knows ? State::Proven : State::Stranger;
  return {};
}

}  // namespace lockstep::tcp
