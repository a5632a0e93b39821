#include "core/shell/shell.hpp"

#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/catch.hpp"

namespace lockstep::shell {
namespace {

Script script_of(const std::string& text, const std::map<std::string, std::string>& given = {}) {
  const Result<Script> script = evaluate(text, "run.sh", given);
  INFO((script.ok() ? "" : to_string(script.error())) << "\n" << text);
  REQUIRE(script.ok());
  return *script;
}

/// The words of the last command, apart by bars.
std::string last(const Script& script) {
  std::string all;
  if (script.commands.empty()) return "none";
  for (const std::string& word : script.commands.back().words) {
    all += (all.empty() ? "" : "|") + spoken(word, script);
  }
  return all;
}
std::string last(const std::string& text, const std::map<std::string, std::string>& given = {}) {
  return last(script_of(text, given));
}

TEST_CASE("words are what bash makes of them", "[core][shell]") {
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"A=4; B=$((A * 2)); run $A ${B} \"$A $B\" '$A'", "run|4|8|4 8|$A"},
           {"A='x y'; run $A \"$A\" ${A}z", "run|x|y|x y|x|yz"},
           {"A=(a 'b c'); A+=(d); run ${A[@]} \"${A[@]}\" ${#A[@]} ${A[1]}",
            "run|a|b|c|d|a|b c|d|3|b|c"},
           {"run ${X:-8} ${Y-z} ${X:+no} end", "run|8|z|end"},
           {"F=/a/b.tar.gz; run ${F##*/} ${F%%.*} ${F%.*} ${F/b/c} ${F:1:3} ${#F}",
            "run|b.tar.gz|/a/b|/a/b.tar|/a/c.tar.gz|a/b|11"},
           {"if [ 3 -gt 2 ] && [[ ab == a* ]]; then run yes; else run no; fi", "run|yes"},
           {"case x86 in arm*) run a;; x*|y) run b;; *) run c;; esac", "run|b"},
           {"read -r A B <<< \"1 2 3\"; run $B $A", "run|2|3|1"},
           {"read -d '' A <<'END'\n--x 1\n--y $2\nEND\nrun $A", "run|--x|1|--y|$2"},
           {"A=$(cat <<END\n--x $((1+1))\nEND\n)\nrun $A", "run|--x|2"},
           {"f() { run $2 $1; }; f a b", "run|b|a"},
           {"set -- a b c; shift; run $1 $# \"$@\"", "run|b|2|b|c"},
           {"A=2 # not A=3\nrun \\\n  --x $A  # --y\n", "run|--x|2"},
           {"run --x 'a' > out 2>&1 | tee log", "tee|log"},
           {"srun -N 2 bash -c \"run --x 1 && next\"", "srun|-N|2|next"},
           {"i=1; while [ $i -lt 5 ]; do i=$((i * 2)); done; run $i", "run|8"},
           {"A=b; b=7; run ${!A} ${A^^}", "run|7|B"},
           {"run $(basename /a/b.sh) $(expr 2 + 3) `echo 5`", "run|b.sh|5|5"},
           {"false || run a", "run|a"},
           {"[ -z \"$NOT_SET\" ] && NOT_SET=3; run $NOT_SET", "run|3"}}) {
    INFO(text);
    CHECK(last(text) == words);
  }
}

TEST_CASE("what a script does not say is a hole, and ways on it are kept apart", "[core][shell]") {
  const std::string text = R"(SIZE=$1
if [ $SIZE = small ]; then
  L=24
  ARGS="--x 1 --bf16"
else
  L=80
  ARGS="--x 1"
fi
run $L $ARGS $(nproc) $2)";
  const Script open = script_of(text);
  CHECK(last(open) == "run|$L|--x|1|$ARGS|$(nproc)|$2");
  const Hole& layers =
      open.holes[static_cast<std::size_t>(holes_of(open.commands.back().words[1]).front())];
  REQUIRE(layers.ways.size() == 2);
  CHECK(layers.ways[0] == Way{"[ $SIZE = small ]", 2, {"24"}});
  CHECK(layers.ways[1].words == std::vector<std::string>{"80"});
  REQUIRE(!layers.causes.empty());
  CHECK(open.holes[static_cast<std::size_t>(layers.causes.front())].name == "1");
  CHECK(last(text, {{"1", "small"}}) == "run|24|--x|1|--bf16|$(nproc)|$2");
  CHECK(last(text, {{"SIZE", "large"}, {"2", "b"}}) == "run|80|--x|1|$(nproc)|b");
  // A way that ends the script is not gone.
  CHECK(last("if [ $# -lt 1 ]; then A=1; exit 1; fi; if [ -z \"$1\" ]; then exit; fi; run a") ==
        "run|a");
  const Script under = script_of("if [ $A = b ]; then run x; fi");
  REQUIRE(under.commands.size() == 1);
  CHECK(under.commands[0].under.front().condition == "[ $A = b ]");
}

TEST_CASE("damaged scripts are refused with their place, and never end the reader",
          "[core][shell]") {
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"a\nif true; then b\n",
            "run.sh:2:1: this is no shell script: the if of line 2 is "
            "never closed: fi is expected"},
           {"a 'b", "run.sh:1:3: this is no shell script: this quote is never closed"},
           {"a )", "run.sh:1:3: this is no shell script: a command is expected, and not this"}}) {
    const Result<Script> script = evaluate(text, "run.sh");
    REQUIRE(!script.ok());
    CHECK(to_string(script.error()) == message);
  }
  for (const char* open : {"(", "$(", "${a:-", "{ ", "if ", "\"$(", "$((", "! ", "while ", "f() ",
                           "((", "a=(", "case x in x) ", "[[ ( ", "a && ", "`"}) {
    std::string deep;
    for (int i = 0; i < 5000; ++i) deep += open;
    CHECK((evaluate(deep, "run.sh").ok() || true));
    CHECK((evaluate("run " + deep, "run.sh").ok() || true));
  }
  const std::string whole = R"(A=(1 "$B" $((2+$C)) ${D:-x}); f() { case $1 in a|b) E=1;; *) exit;;
esac; }
f b <<X
$A `date`
X
for i in 1 2; do while [[ $i < 3 ]]; do break; done; done; [ -f x ] && { run "${A[@]}" || ! g; })";
  CHECK(evaluate(whole, "run.sh").ok());
  std::mt19937 draw(1);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CHECK((evaluate(whole.substr(0, i), "run.sh").ok() || true));
    std::string flipped = whole;
    flipped[i] = static_cast<char>(draw() % 128);
    CHECK((evaluate(flipped, "run.sh").ok() || true));
  }
  const Result<Script> grows =
      evaluate("A=aaaaaaaaaaaaaaaa; while true; do A=$A$A$A$A; done", "run.sh");
  REQUIRE(!grows.ok());
  CHECK(grows.error().kind == ErrorKind::Unsupported);
}

/// What bash prints for a script; nullopt where there is no bash.
std::optional<std::string> of_bash(const std::string& script) {
  if (std::system("bash -c true >/dev/null 2>&1") != 0)
    return std::nullopt;  // NOLINT(cert-env33-c)
  std::string quoted;
  for (const char c : script) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  FILE* const pipe = popen(("bash -c '" + quoted + "' 2>/dev/null").c_str(), "r");  // NOLINT
  if (pipe == nullptr) return std::nullopt;
  std::string out;
  char part[512];
  for (std::size_t n = 0; (n = fread(part, 1, sizeof part, pipe)) > 0;) out.append(part, n);
  pclose(pipe);
  return out;
}

/// Scripts without a command but `show`, from a seed.
class Writer {
 public:
  explicit Writer(unsigned seed) : draw_(seed) {}
  std::string script() {
    std::string all = "A=3; B='x  y'; C=(1 'two words' three); D=\"a/b.c.d\"; E=\n";
    for (int i = 0; i < 6; ++i) all += statement(0) + "\n";
    return all;
  }

 private:
  unsigned below(unsigned n) { return draw_() % n; }
  std::string pick(const std::vector<std::string>& of) {
    return of[below(static_cast<unsigned>(of.size()))];
  }
  std::string number(int depth) {
    if (depth > 2) return pick({"1", "2", "7", "A", "$A", "${#C[@]}", "0x10"});
    const std::string a = number(depth + 1), b = number(depth + 1);
    return pick(
        {"(" + a + pick({"+", "-", "*", "<", "==", "&", "|", "^", "<<", "&&", "||"}) + b + ")",
         a + " * " + b + " + 1", "-" + a, "!" + a, a + " ? " + b + " : 5", a + " - " + b,
         a + " ** 2", a + " / 3", a + " % 3", "~" + a});
  }
  std::string value() {
    return pick({"$A",
                 "${A}",
                 "$B",
                 "\"$B\"",
                 "'$B'",
                 "${C[1]}",
                 "\"${C[@]}\"",
                 "${C[@]}",
                 "\"${C[*]}\"",
                 "${#C[@]}",
                 "${#B}",
                 "${D%.*}",
                 "${D%%.*}",
                 "${D#*/}",
                 "${D##*.}",
                 "${D/b/Z}",
                 "${D//[ab]/_}",
                 "${D:2:3}",
                 "${D: -2}",
                 "${E:-none}",
                 "${E-none}",
                 "${N:-$A}",
                 "\"${N:-a b}\"",
                 "${N:-a b}",
                 "${A:+set}",
                 "${E:+set}",
                 "${A^^}",
                 "x${A}y",
                 "\"x $A\"'z'",
                 "$((" + number(0) + "))",
                 "a\\ b",
                 "\"a\\$b\\\"c\"",
                 "$'t\\tu'",
                 "\"${C[@]:1}\"",
                 "${D^}",
                 "plain",
                 "\"\"",
                 "$E",
                 "\"$E\"",
                 "--n=$A"});
  }
  std::string condition() {
    return pick({"[ $A -gt " + pick({"2", "3"}) + " ]", "[[ $D == a* ]]", "[[ $D == \"a*\" ]]",
                 "[ \"$E\" = \"\" ]", "[ -z \"$E\" ]", "[[ -n $B && $A -eq 3 ]]",
                 "(( " + number(1) + " ))", "! [ $A = 3 ]", "[ -z \"$B\" ] || [ $A != 4 ]",
                 "[[ ( $A -lt 3 || $B ) && ! $E ]]", "test $A -le 3", "[ \"$A\" ]"});
  }
  std::string statement(int depth) {
    std::string show = "show " + value() + " " + value() + " " + value();
    if (depth > 2) return show;
    const std::string inner = statement(depth + 1);
    switch (below(9)) {
      case 0:
        return "if " + condition() + "; then " + inner + "; else " + statement(depth + 1) + "; fi";
      case 1:
        return "case $D in " + pick({"a*", "b*", "\"a*\"", "a/?.c.d", "x|a/b.c.d"}) + ") " + inner +
               ";; *) show other;; esac";
      case 2:
        return "A=$((" + number(0) + "))\nA=3";
      case 3:
        return "C+=(" + value() + " " + value() + ")";
      case 4:
        return condition() + " && " + inner;
      case 5:
        return "B=" + value() + "; show \"$B\" $B";
      case 6:
        return "read -r P Q <<< \"$B $A\"; show \"$P\" \"$Q\"";
      case 7:
        return "f() { " + inner + "; show $1 \"$2\" $#; }; f " + value() + " " + value();
      default:
        return show;
    }
  }
  std::mt19937 draw_;
};

TEST_CASE("words of scripts that have no holes are bash's own", "[core][shell]") {
  int compared = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const std::string script = Writer(seed).script();
    const std::optional<std::string> expected =
        of_bash("show() { printf \"<%s>\" \"$@\"; echo; }\n" + script + "show end\n");
    if (!expected) SUCCEED("there is no bash here");
    if (!expected || !expected->ends_with("<end>\n")) continue;  // bash refuses it
    std::string found;
    const Script own = script_of(script + "show end\n");
    bool holed = false;
    for (const Command& command : own.commands) {
      if (command.words.front() != "show") continue;  // bash does not find it
      for (std::size_t i = 1; i < command.words.size(); ++i) {
        found += "<" + command.words[i] + ">";
        holed = holed || has_hole(command.words[i]);
      }
      found += command.words.size() == 1 ? "<>\n" : "\n";
    }
    if (holed) continue;
    ++compared;
    INFO(seed << "\n" << script);
    CHECK(found == *expected);
  }
  if (of_bash("echo x")) CHECK(compared > 150);
}

}  // namespace
}  // namespace lockstep::shell
