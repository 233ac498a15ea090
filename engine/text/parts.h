/* parts.h - struct ce_tokenizer, an open tokenizer, and the functions of the files that fill it. Private to this
 * folder. */
#ifndef CE_TEXT_PARTS_H
#define CE_TEXT_PARTS_H

#include "text/decoder.h"
#include "text/lexicon.h"
#include "text/normalizer.h"
#include "text/special.h"
#include "text/tokenizer.h"
#include "text/words.h"

/* ---- seams.c: places at which a word may be cut without changing its tokens, as no token reaches across ---- */

/* The kinds of seams that words may have. SentencePiece does not cut a text into words: the whole text is one word,
 * which may be long. In SentencePiece's tokens, U+2581 stands for a space and occurs only at the beginning. */
typedef struct {
    bool marks; /* True if a word may be cut before each U+2581 that follows another character. */
    bool lines; /* True if a word may be cut after each line break that an ASCII letter follows. */
} ce_seams;

ce_seams ce_seams_find(const ce_lexicon *lexicon);

/* Returns the number of bytes up to the word's next seam before a U+2581, or `size` if the word has none. */
size_t ce_seams_next(const char *word, size_t size);

/* ---- the tokenizer ---- */

enum { CE_PARTS_AROUND = 8 };

struct ce_tokenizer {
    bool is_bytes; /* True if each byte is a token; the members below are then unused. */
    ce_lexicon lexicon;
    ce_seams seams;
    ce_normalizer normalizer;
    ce_words *words;
    /* Special tokens: those of `raw` are searched before normalization, those of `normal` after it. */
    ce_specials raw, normal;
    ce_decoder decoder;
    ce_text shown_text;
    /* [lexicon.size]: for each token, the text that it stands for in the middle of a document, as offset and size in
     * `shown_text` */
    ce_lexicon_piece *shown;
    bool has_cuts; /* True if long texts may be cut at the beginnings of lines. */
    /* The ids of the tokens that the post_processor adds before and after a text. */
    int32_t before[CE_PARTS_AROUND], after[CE_PARTS_AROUND];
    int before_count, after_count;
    json_t *templates; /* the texts of the chat templates, by their names */
    char *begin_text, *end_text;
    int32_t end;
    /* These members are set for a SentencePiece model only. has_no_text [piece_count] marks the control symbols, which
     * have no text; has_no_text is NULL if all tokens have a text. unknown_text is the text of the unknown token. */
    bool *has_no_text;
    int64_t piece_count;
    char *unknown_text;
};

/* Sets the tokenizer's members from a tokenizer.json. */
cs_status ce_tokenfile_read(ce_tokenizer *tokenizer, const json_t *root);
/* Adds an entry of "added_tokens", or of "added_tokens_decoder", as the token `id`. */
cs_status ce_tokenfile_added(ce_tokenizer *tokenizer, const json_t *token, int64_t id);

/* ---- words_read.c: the section "pre_tokenizer" ---- */

/* True if the section has a ByteLevel, so that the model reads bytes, not characters. */
bool ce_words_reads_bytes(const json_t *part);
cs_status ce_words_read(ce_words *words, const json_t *part);

/* ---- added.c: the tokens that the files beside the vocabulary add ---- */

/* The files of a tokenizer's folder that lie beside its vocabulary; a member is NULL if the folder lacks the file. */
typedef struct {
    json_t *config;     /* tokenizer_config.json */
    json_t *map;        /* special_tokens_map.json */
    json_t *tokens;     /* added_tokens.json */
    json_t *generation; /* generation_config.json */
    json_t *model;      /* config.json */
} ce_added_files;

/* Adds the tokens that the files list or name, and sets the texts of bos_token and eos_token, all as transformers 5
 * does. To be called after the vocabulary is read. Returns CS_BAD_FILE if two files disagree about the id of a token, or
 * if a token is named and no file defines it. */
cs_status ce_added_read(ce_tokenizer *tokenizer, const ce_added_files *files);

/* Puts the tokens before and behind a text that add_bos_token and add_eos_token ask for. To be called for a vocabulary
 * without a post_processor. */
void ce_added_around(ce_tokenizer *tokenizer, const json_t *config);

/* ---- beside.c: the files of a tokenizer's folder ---- */

/* Reads a whole file. CS_NOT_FOUND is returned without a message, because only the caller knows whether a missing file
 * is an error. */
cs_status ce_beside_text(ce_text *content, const char *folder, const char *name);
/* Parses a JSON file. If the file does not exist, *root is NULL and the result CS_OK. */
typedef json_t *ce_beside_parser(const char *text, size_t length);
cs_status ce_beside_json(json_t **root, const char *folder, const char *name, ce_beside_parser *parse);
/* Reads the templates into an object, as transformers does: from files if there are such, otherwise from `config`,
 * tokenizer_config.json; and if that has none, from the file of a processor, chat_template.json. */
cs_status ce_beside_templates(json_t **templates, const char *folder, const json_t *config);

/* ---- class.c: the tokenizer class that transformers 5.24 uses for a folder ---- */

/* Returns the name of the class, without "Fast". `config` is tokenizer_config.json and `model` is config.json; either
 * may be NULL. If they name neither a class nor a known type of model, returns `otherwise`. */
enum { CE_CLASS_NAME = 64 };
const char *ce_class_name(char name[CE_CLASS_NAME], const json_t *config, const json_t *model, const char *otherwise);

/* Checks what tokenizer_config.json says of code and files that are not read. Returns CS_UNSUPPORTED if they would make
 * other tokens; warns if they would not. */
cs_status ce_class_check(const json_t *config);

/* ---- the others ---- */

/* True if a special token with this text has been added. */
bool ce_tokenizer_has_added(const ce_tokenizer *tokenizer, const char *text);

/* Sets the tokenizer's members from SentencePiece's tokenizer.model, as the class of transformers of this name does.
 * `config` is tokenizer_config.json, or NULL if that file does not exist. */
cs_status ce_sentencepiece_read(ce_tokenizer *tokenizer, const char *bytes, size_t size, const char *class,
                                const json_t *config);

/* Computes the members that depend on other members, such as `seams` and `shown`. To be called after the files are
 * read. */
void ce_tokenizer_finish(ce_tokenizer *tokenizer);

#endif
