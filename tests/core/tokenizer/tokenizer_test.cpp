#include "core/tokenizer/tokenizer.hpp"

#include <fstream>

#include "core/tokenizer/byte_pairs.hpp"
#include "core/tokenizer/splitter.hpp"
#include "core/tokenizer/unicode.hpp"
#include "core/tokenizer/utf8.hpp"
#include "tests/catch.hpp"
#include "tests/core/tokenizer/small_gpt2.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

using test::small_gpt2;
using test::Words;

std::vector<std::string> pieces_of(const Splitter& splitter, std::string_view text) {
  std::vector<std::string> pieces;
  splitter.split(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

std::vector<std::string> split(const std::string& pattern, Splitter::Behavior behavior,
                               std::string_view text, bool inverted = false) {
  const auto made = Splitter::make(pattern, false, behavior, inverted);
  if (!made) FAIL(made.error().message);
  return pieces_of(*made, text);
}

using Ids = std::vector<std::int32_t>;

std::unique_ptr<Tokenizer> opened(const std::string& json) {
  const TemporaryFolder folder;
  std::ofstream(folder / "tokenizer.json") << json;
  auto made = open_tokenizer(folder.path);
  if (!made) FAIL(made.error().message);
  return std::move(*made);
}

/// BERT's normalization with a vocabulary of twenty.
std::string word_pieces(const std::string& lowers) {
  std::string vocab;
  int id = 0;
  for (const char* token : {"[PAD]", "[UNK]",  "[CLS]",    "[SEP]",    "[MASK]", "un", "runn",
                            "##aff", "##able", "a",        "##a",      ",",      "$",  "\u3002",
                            "漢",    "\u1100", "##\u1161", "##\u11a8", "i",      "##x"}) {
    vocab += (id == 0 ? "\"" : ",\"") + std::string(token) + "\":" + std::to_string(id);
    ++id;
  }
  return R"({"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,
             "strip_accents":null,"lowercase":)" +
         lowers + R"(},"pre_tokenizer":{"type":"BertPreTokenizer"},
             "post_processor":{"type":"BertProcessing","cls":["[CLS]",2],"sep":["[SEP]",3]},
             "added_tokens":[{"content":"[CLS]","id":2,"special":true},
               {"content":"[SEP]","id":3,"special":true},{"content":"[MASK]","id":4,"special":true}],
             "model":{"type":"WordPiece","vocab":{)" +
         vocab + "}}}";
}

std::string error_of(const std::string& json) {
  const TemporaryFolder folder;
  std::ofstream(folder / "tokenizer.json") << json;
  const auto made = open_tokenizer(folder / "tokenizer.json");
  REQUIRE(!made.ok());
  return made.error().message.substr(made.error().message.find("json: ") + 6);
}

}  // namespace

TEST_CASE("pairs are joined in the order in which they were learned, not from left to right",
          "[core][tokenizer]") {
  BytePairs pairs;
  int id = 0;
  for (const char* symbol : {"a", "b", "c", "bc", "ab", "abc"}) pairs.add(symbol, id++);
  REQUIRE(pairs.join("b", "c"));
  REQUIRE(pairs.join("a", "b"));
  REQUIRE(pairs.join("a", "bc"));
  Ids ids = {0, 1, 2};  // "bc" first, then "abc"; "ab" never gets its turn
  pairs.merge(ids);
  CHECK(ids == Ids{5});
  ids = {0, 1, 1, 2, 0};
  pairs.merge(ids);
  CHECK(ids == Ids{4, 3, 0});
  CHECK(!pairs.join("c", "a"));
}

TEST_CASE("of overlapping pairs of one symbol the left one is joined first", "[core][tokenizer]") {
  BytePairs pairs;
  pairs.add("a", 0);
  pairs.add("aa", 1);
  pairs.add("aaaa", 2);
  pairs.join("a", "a");
  pairs.join("aa", "aa");
  Ids ids(7, 0);
  pairs.merge(ids);
  CHECK(ids == Ids{2, 1, 0});
}

TEST_CASE("GPT-2's expression keeps a space with the word that follows it", "[core][tokenizer]") {
  CHECK(split(gpt2_pattern(), Splitter::Behavior::Isolated, "Don't  stop,\tit's 2½ o'clock \n ") ==
        Words{"Don", "'t", " ", " stop", ",", "\t", "it", "'s", " 2½", " o", "'", "clock", " \n "});
  // A no-break space is a space, the Mongolian vowel separator is none.
  CHECK(split(gpt2_pattern(), Splitter::Behavior::Isolated, "a\u00a0b\u180ec\u0085d") ==
        Words{"a", "\u00a0", "b", "\u180e", "c", "\u0085", "d"});
}

TEST_CASE("a split does with its matches what it says", "[core][tokenizer]") {
  using B = Splitter::Behavior;
  const std::string text = "the-final--countdown";
  // The examples of the documentation of Hugging Face's tokenizers.
  CHECK(split("-", B::Removed, text) == Words{"the", "final", "countdown"});
  CHECK(split("-", B::Isolated, text) == Words{"the", "-", "final", "-", "-", "countdown"});
  CHECK(split("-", B::MergedWithPrevious, text) == Words{"the-", "final-", "-", "countdown"});
  CHECK(split("-", B::MergedWithNext, text) == Words{"the", "-final", "-", "-countdown"});
  CHECK(split("-", B::Contiguous, text) == Words{"the", "-", "final", "--", "countdown"});
  CHECK(split("[a-z]+", B::Removed, text, true) == Words{"the", "final", "countdown"});
  const auto bad = Splitter::make("(a", false, B::Isolated, false);
  REQUIRE(!bad.ok());
  CHECK(bad.error().message.starts_with("the expression '(a' is not understood: "));
}

TEST_CASE("text that is no UTF-8 becomes replacement characters, as Unicode recommends",
          "[core][tokenizer]") {
  const std::string fffd = "\xef\xbf\xbd";
  CHECK(valid_utf8("grüße 🙂") == "grüße 🙂");
  CHECK(valid_utf8("a\xf0\x9f\x99"
                   "b") == "a" + fffd + "b");                          // a beginning, cut off
  CHECK(valid_utf8("\xc0\xaf") == fffd + fffd);                        // overlong
  CHECK(valid_utf8("\xed\xa0\x80") == fffd + fffd + fffd);             // a surrogate
  CHECK(valid_utf8("\xf4\x90\x80\x80") == fffd + fffd + fffd + fffd);  // above U+10FFFF
}

TEST_CASE("every text comes back from its tokens", "[core][tokenizer]") {
  const auto tokenizer = opened(small_gpt2({"h e", "l l", "he ll", "hell o", "Ġ hello"}));
  CHECK(tokenizer->encode("hello hello") == Ids{259, 260});
  CHECK(tokenizer->vocabulary() == 261);
  for (const char* text :
       {"hello hello", "naïve 漢字 🙂🏽 \t\r\n", "", "   x  ", "<|endoftext|>"}) {
    CAPTURE(text);
    CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
  }
}

TEST_CASE("added tokens are found before anything else, the longest first", "[core][tokenizer]") {
  const auto tokenizer =
      opened(small_gpt2({"h e"}, R"(,"added_tokens":[{"content":"<a>","id":300,"special":true},
                   {"content":"<a><b>","id":301,"special":false},
                   {"content":"<m>","id":302,"special":true,"lstrip":true}])"));
  CHECK(tokenizer->encode("he<a>he<a><b>h  <m>") == Ids{256, 300, 256, 301, 104, 302});
  CHECK(tokenizer->decode({256, 300, 301}) == "he<a><b>");
  CHECK(tokenizer->vocabulary() == 303);
}

TEST_CASE("a template puts its special tokens around a text where they are asked for",
          "[core][tokenizer]") {
  const auto tokenizer = opened(
      small_gpt2({}, R"(,"added_tokens":[{"content":"<s>","id":256},{"content":"</s>","id":257}],
           "post_processor":{"type":"TemplateProcessing",
             "single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A"}}],
             "special_tokens":{"<s>":{"ids":[256]}}})"));
  CHECK(tokenizer->encode("a", true) == Ids{256, 97});
  CHECK(tokenizer->encode("a") == Ids{97});
  CHECK(tokenizer->end() == 257);
}

TEST_CASE("a tokenizer in SentencePiece's manner marks spaces, and falls back to bytes",
          "[core][tokenizer]") {
  std::string vocab = R"("▁":256,"a":257,"▁a":258,"b":259)";
  for (int b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", b);
    vocab += std::string(",\"") + name + "\":" + std::to_string(b);
  }
  const auto tokenizer = opened(
      R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},
          {"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
         "model":{"type":"BPE","byte_fallback":true,"vocab":{)" +
      vocab + R"(},"merges":[["▁","a"]]}})");
  CHECK(tokenizer->encode("a ab é") == Ids{258, 258, 259, 256, 0xc3, 0xa9});
  CHECK(tokenizer->decode({258, 258, 259, 256, 0xc3, 0xa9}) == "a ab é");
  CHECK(tokenizer->piece(258) == " a");  // behind others, where the space is meant
}

TEST_CASE("a tokenizer that is damaged or of another kind is refused with its reason",
          "[core][tokenizer]") {
  CHECK(error_of("[]") == "there is no 'model'");
  CHECK(error_of(R"({"model":{"type":"Unigram"}})") ==
        "a tokenizer of type Unigram is not known here; shards of its tokens can be made elsewhere "
        "(docs/models.md)");
  CHECK(error_of(R"({"model":{"type":"BPE","vocab":{}}})") ==
        "the model has no 'vocab' and 'merges', as byte pairs have");
  CHECK(error_of(R"({"model":{"vocab":{"a":0,"b":1},"merges":["a b"]}})") ==
        "merge 0 is not of two symbols that make a third");
  CHECK(error_of(R"({"normalizer":{"type":"Lowercase"},"model":{}})") ==
        "the normalizer Lowercase is not known here; shards of its tokens can be made elsewhere "
        "(docs/models.md)");
  CHECK(!error_of(R"({"model":{"vocab":{"a":"x"},"merges":[]}})").empty());
  for (const char* id : {"-1", "1.5", "1099511627776"}) {  // 2^40 would be cut to 0
    CHECK(error_of(std::string(R"({"model":{"vocab":{"a":)") + id + R"(},"merges":[]}})") ==
          std::string("the id of 'a' is ") + id);
    CHECK(!error_of(std::string(R"({"model":{"vocab":{},"merges":[]},"added_tokens":[{"id":)") +
                    id + R"(,"content":"x"}]})")
               .empty());
  }
  CHECK(!error_of("{").empty());
  const TemporaryFolder empty;
  CHECK(!open_tokenizer(empty.path).ok());
  CHECK(!has_tokenizer(empty.path));
}

TEST_CASE("words become the longest pieces that they begin with, or are unknown as a whole",
          "[core][tokenizer]") {
  const auto tokenizer = opened(word_pieces("true"));
  CHECK(tokenizer->encode("unaffable") == Ids{5, 7, 8});  // the example of BERT's tokenization.py
  CHECK(tokenizer->encode("unaffix") == Ids{1});
  CHECK(tokenizer->encode("aff") == Ids{1});  // a piece that only continues
  CHECK(tokenizer->encode("un [MASK]un", true) == Ids{2, 5, 4, 5, 3});
  CHECK(tokenizer->encode(std::string(101, 'a')) == Ids{1});
  CHECK(tokenizer->encode(std::string(100, 'a')).size() == 100);
  CHECK(tokenizer->decode({2, 5, 7, 8, 9, 3}) == "unaffable a");
  CHECK(tokenizer->vocabulary() == 20);
  CHECK(tokenizer->end() == 3);
}

TEST_CASE("BERT's text has no marks, capitals or controls, and its own words of signs",
          "[core][tokenizer]") {
  const auto uncased = opened(word_pieces("true"));
  CHECK(uncased->encode("\u00c0\u200d\u0301A\u00a0a") == Ids{9, 10, 9});  // "aa a"
  CHECK(uncased->encode("a,a$\t\u3002a") == Ids{9, 11, 9, 12, 13, 9});
  CHECK(uncased->encode("a漢a") == Ids{9, 14, 9});
  CHECK(uncased->encode("각") == Ids{15, 16, 17});  // in its letters, as NFD has them
  CHECK(uncased->encode("İ\xffx") == Ids{18, 19});  // U+0130 is i without its dot
  const auto cased = opened(word_pieces("false"));
  CHECK(cased->encode("a A") == Ids{9, 1});
  CHECK(cased->encode("à") == Ids{1});
}

TEST_CASE("letters lose their marks and capitals as Unicode says", "[core][tokenizer]") {
  CHECK(without_marks(U'ế') == U"e");
  CHECK(without_marks(0x301).empty());
  CHECK(without_marks(U'ø') == U"ø");
  CHECK(without_marks(0xac00) == std::u32string{0x1100, 0x1161});
  CHECK(without_marks(0xd7a3) == std::u32string{0x1112, 0x1175, 0x11c2});
  CHECK(without_marks(0x1d15e) == std::u32string{0x1d157, 0x1d165});
  CHECK(lower_case(U'Σ') == U"σ");
  CHECK(lower_case(0x130) == std::u32string{'i', 0x307});
  CHECK(lower_case(0x1e9e) == U"ß");
  CHECK(lower_case(0x10400) == std::u32string{0x10428});
  CHECK(lower_case(0x101) == std::u32string{0x101});  // between two capitals of a run
  CHECK(is_punctuation('$'));
  CHECK(!is_punctuation(0x20ac));  // the Euro sign is a symbol
  CHECK(is_no_text(0xad));
  CHECK(!is_no_text('\n'));
}

TEST_CASE("BERT's vocab.txt is read with what tokenizer_config.json says of capitals",
          "[core][tokenizer]") {
  const TemporaryFolder folder;
  std::ofstream(folder / "vocab.txt") << "[PAD]\r\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\nA\n";
  CHECK(has_tokenizer(folder.path));
  auto made = open_tokenizer(folder.path);
  REQUIRE(made.ok());
  CHECK((*made)->encode("AB [MASK]", true) == Ids{2, 5, 6, 4, 3});
  std::ofstream(folder / "tokenizer_config.json") << R"({"do_lower_case": false})";
  made = open_tokenizer(folder / "vocab.txt");
  REQUIRE(made.ok());
  CHECK((*made)->encode("Ab") == Ids{7, 6});
  std::ofstream(folder / "vocab.txt") << "a\nb\n";
  CHECK_THAT(open_tokenizer(folder.path).error().message,
             ContainsSubstring("vocab.txt: there is no line [UNK]"));
}

TEST_CASE("steps beside word pieces that are not BERT's are refused", "[core][tokenizer]") {
  CHECK(error_of(R"({"model":{"type":"WordPiece","vocab":{}}})") ==
        "the pre-tokenizer  beside word pieces is not known here; shards of its tokens can be made "
        "elsewhere (docs/models.md)");
  const std::string splits = R"("pre_tokenizer":{"type":"BertPreTokenizer"},)";
  CHECK(error_of("{" + splits + R"("model":{"type":"WordPiece","vocab":{"a":0}}})") ==
        "its token for unknown words, '[UNK]', is not in 'vocab'");
  CHECK_THAT(error_of("{" + splits +
                      R"("normalizer":{"type":"NFKC"},"model":{"type":"WordPiece","vocab":{}}})"),
             ContainsSubstring("the normalizer NFKC beside word pieces"));
}

TEST_CASE("without a file, tokens are bytes", "[core][tokenizer]") {
  const auto tokenizer = byte_tokenizer();
  CHECK(tokenizer->encode("é\xff") == Ids{0xc3, 0xa9, 0xff});
  CHECK(tokenizer->decode({0xc3, 0xa9, 300, -1}) == "é");
}

}  // namespace lockstep
