/* rows.cpp - libcspeed_arrow.so: the rows of Parquet and Arrow files as lines of JSON (rows_module.h).
 *
 * Everything runs on the calling thread. A fault of a file is thrown as an exception, and ce_module_arrow.write turns
 * it into a sentence. */
#include "formats/rows_module.h"

#include <arrow/api.h>
#include <arrow/extension_type.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/util/utf8.h>
#include <parquet/arrow/reader.h>
#include <parquet/properties.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <strings.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

using arrow::Type;

void must(const arrow::Status &status)
{
    if (!status.ok())
        throw std::runtime_error(status.message());
}

template <class T> T must(arrow::Result<T> result)
{
    must(result.status());
    return result.MoveValueUnsafe();
}

/* ---- values ---- */

/* Refuses a type that has no form in JSON. */
void check_type(const arrow::DataType &type, const std::string &column)
{
    switch (type.id()) {
    case Type::NA:
    case Type::BOOL:
    case Type::INT8:
    case Type::INT16:
    case Type::INT32:
    case Type::INT64:
    case Type::UINT8:
    case Type::UINT16:
    case Type::UINT32:
    case Type::UINT64:
    case Type::FLOAT:
    case Type::DOUBLE:
    case Type::STRING:
    case Type::LARGE_STRING:
    case Type::STRING_VIEW:
    case Type::BINARY:
    case Type::LARGE_BINARY:
    case Type::BINARY_VIEW:
        return;
    case Type::EXTENSION:
        return check_type(*static_cast<const arrow::ExtensionType &>(type).storage_type(), column);
    case Type::DICTIONARY:
        return check_type(*static_cast<const arrow::DictionaryType &>(type).value_type(), column);
    case Type::LIST:
    case Type::LARGE_LIST:
    case Type::FIXED_SIZE_LIST:
    case Type::LIST_VIEW:
    case Type::LARGE_LIST_VIEW:
    case Type::STRUCT:
        for (const auto &field : type.fields())
            check_type(*field->type(), column);
        return;
    default:
        throw std::runtime_error("the column \"" + column + "\" is of a type that is not read, " + type.ToString() +
                                 ": cast it to strings, numbers, lists or structs, or remove it");
    }
}

void put_text(std::string &line, std::string_view text)
{
    char escaped[8];
    size_t done = 0;
    line += '"';
    for (size_t i = 0; i < text.size(); i++) {
        auto c = static_cast<unsigned char>(text[i]);
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        snprintf(escaped, sizeof escaped, c < 0x20 ? "\\u%04x" : "\\%c", c);
        line.append(text, done, i - done).append(escaped);
        done = i + 1;
    }
    line.append(text, done).append("\"");
}

/* Bytes are a text if they are UTF-8. */
void put_bytes(std::string &line, std::string_view bytes)
{
    if (!arrow::util::ValidateUTF8(bytes))
        throw std::runtime_error("a binary value that is not UTF-8 text: write the column as decoded text");
    put_text(line, bytes);
}

void put_real(std::string &line, double value)
{
    char digits[32];
    if (!std::isfinite(value))
        throw std::runtime_error("a number that is not finite, which JSON cannot represent");
    snprintf(digits, sizeof digits, "%.17g", value);
    line += digits;
    if (!strpbrk(digits, ".e"))
        line += ".0"; // a whole number stays a real number, as in a row of JSON
}

template <class Array> const Array &as(const arrow::Array &array)
{
    return static_cast<const Array &>(array);
}

void put_value(std::string &line, const arrow::Array &array, int64_t row);

template <class Array> void put_list(std::string &line, const arrow::Array &array, int64_t row)
{
    const auto &list = as<Array>(array);
    line += '[';
    for (int64_t i = 0; i < list.value_length(row); i++) {
        if (i > 0)
            line += ", ";
        put_value(line, *list.values(), list.value_offset(row) + i);
    }
    line += ']';
}

void put_struct(std::string &line, const arrow::StructArray &array, int64_t row)
{
    line += '{';
    for (int i = 0; i < array.num_fields(); i++) {
        if (i > 0)
            line += ", ";
        put_text(line, array.type()->field(i)->name());
        line += ": ";
        put_value(line, *array.field(i), row);
    }
    line += '}';
}

/* A value of the type arrow.json is the text of a JSON value, which is written as it is. Other extension types have the
 * form of their storage. */
void put_extension(std::string &line, const arrow::Array &array, int64_t row)
{
    const auto &storage = *as<arrow::ExtensionArray>(array).storage();
    const auto &type = static_cast<const arrow::ExtensionType &>(*array.type());
    if (type.extension_name() != "arrow.json") {
        put_value(line, storage, row);
        return;
    }
    std::string text = must(storage.GetScalar(row))->ToString();
    std::replace(text.begin(), text.end(), '\n', ' ');
    line += text;
}

/* Writes one element, whose type check_type has accepted. */
void put_value(std::string &line, const arrow::Array &array, int64_t row)
{
    if (array.IsNull(row)) {
        line += "null";
        return;
    }
    switch (array.type_id()) {
    case Type::BOOL:
        line += as<arrow::BooleanArray>(array).Value(row) ? "true" : "false";
        return;
    case Type::INT8:
        line += std::to_string(as<arrow::Int8Array>(array).Value(row));
        return;
    case Type::INT16:
        line += std::to_string(as<arrow::Int16Array>(array).Value(row));
        return;
    case Type::INT32:
        line += std::to_string(as<arrow::Int32Array>(array).Value(row));
        return;
    case Type::INT64:
        line += std::to_string(as<arrow::Int64Array>(array).Value(row));
        return;
    case Type::UINT8:
        line += std::to_string(as<arrow::UInt8Array>(array).Value(row));
        return;
    case Type::UINT16:
        line += std::to_string(as<arrow::UInt16Array>(array).Value(row));
        return;
    case Type::UINT32:
        line += std::to_string(as<arrow::UInt32Array>(array).Value(row));
        return;
    case Type::UINT64:
        line += std::to_string(as<arrow::UInt64Array>(array).Value(row));
        return;
    case Type::FLOAT:
        put_real(line, as<arrow::FloatArray>(array).Value(row));
        return;
    case Type::DOUBLE:
        put_real(line, as<arrow::DoubleArray>(array).Value(row));
        return;
    case Type::STRING:
        put_text(line, as<arrow::StringArray>(array).GetView(row));
        return;
    case Type::LARGE_STRING:
        put_text(line, as<arrow::LargeStringArray>(array).GetView(row));
        return;
    case Type::STRING_VIEW:
        put_text(line, as<arrow::StringViewArray>(array).GetView(row));
        return;
    case Type::BINARY:
        put_bytes(line, as<arrow::BinaryArray>(array).GetView(row));
        return;
    case Type::LARGE_BINARY:
        put_bytes(line, as<arrow::LargeBinaryArray>(array).GetView(row));
        return;
    case Type::BINARY_VIEW:
        put_bytes(line, as<arrow::BinaryViewArray>(array).GetView(row));
        return;
    case Type::EXTENSION:
        put_extension(line, array, row);
        return;
    case Type::DICTIONARY: {
        const auto &coded = as<arrow::DictionaryArray>(array);
        put_value(line, *coded.dictionary(), coded.GetValueIndex(row));
        return;
    }
    case Type::LIST:
        put_list<arrow::ListArray>(line, array, row);
        return;
    case Type::LARGE_LIST:
        put_list<arrow::LargeListArray>(line, array, row);
        return;
    case Type::FIXED_SIZE_LIST:
        put_list<arrow::FixedSizeListArray>(line, array, row);
        return;
    case Type::LIST_VIEW:
        put_list<arrow::ListViewArray>(line, array, row);
        return;
    case Type::LARGE_LIST_VIEW:
        put_list<arrow::LargeListViewArray>(line, array, row);
        return;
    default:
        put_struct(line, as<arrow::StructArray>(array), row);
    }
}

/* ---- rows ---- */

/* What a file's reader needs: the columns that are wanted, and where the text goes. */
struct Writer {
    const char *const *wanted; /* the wanted columns; NULL means all columns */
    ce_rows_put *put;
    void *to;
    std::vector<std::string> columns, others; /* the columns of the file that are wanted, and the others */
    int64_t row = 0;
    std::string column; /* the column that is being read, for messages */

    void choose(const arrow::Schema &schema)
    {
        std::string all;
        for (const auto &field : schema.fields()) {
            bool chosen = !wanted;
            for (const char *const *name = wanted; name && *name; name++)
                chosen |= field->name() == *name;
            all += (all.empty() ? "\"" : ", \"") + field->name() + "\"";
            if (!chosen) {
                others.push_back(field->name());
                continue;
            }
            check_type(*field->type(), field->name());
            columns.push_back(field->name());
        }
        if (columns.empty())
            throw std::runtime_error("no column has a name that is read as text or conversation; the columns are " +
                                     all + " (\"columns\" and \"field\" name columns)");
    }

    /* Returns false if no more text is wanted. */
    bool write(const arrow::RecordBatch &batch, double done)
    {
        std::vector<std::shared_ptr<arrow::Array>> arrays;
        std::string text;
        for (const std::string &name : columns) {
            arrays.push_back(batch.GetColumnByName(name));
            if (!arrays.back())
                throw std::runtime_error("the column \"" + name + "\" exists twice, or is missing in some part");
            column = name;
            must(arrays.back()->ValidateFull());
        }
        for (int64_t i = 0; i < batch.num_rows(); i++, row++) {
            for (size_t c = 0; c < columns.size(); c++) {
                text += c == 0 ? "{" : ", ";
                put_text(text, columns[c]);
                text += ": ";
                column = columns[c];
                put_value(text, *arrays[c], i);
            }
            text += "}\n";
        }
        column.clear();
        return put(to, text.data(), text.size(), done);
    }
};

void write_parquet(const std::string &path, Writer &writer)
{
    auto *pool = arrow::system_memory_pool();
    auto properties = parquet::ReaderProperties(pool);
    properties.enable_buffered_stream();
    parquet::ArrowReaderProperties in_arrow(false);
    in_arrow.set_batch_size(1024);
    in_arrow.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    must(builder.Open(must(arrow::io::ReadableFile::Open(path, pool)), properties));
    builder.memory_pool(pool)->properties(in_arrow);
    auto reader = must(builder.Build());
    std::shared_ptr<arrow::Schema> schema;
    must(reader->GetSchema(&schema));
    writer.choose(*schema);

    const auto &facts = *reader->parquet_reader()->metadata();
    std::vector<int> groups, leaves;
    for (int i = 0; i < facts.num_row_groups(); i++)
        groups.push_back(i);
    for (int i = 0; i < facts.num_columns(); i++)
        for (const std::string &name : writer.columns)
            if (facts.schema()->GetColumnRoot(i)->name() == name)
                leaves.push_back(i);
    auto batches = must(reader->GetRecordBatchReader(groups, leaves));
    for (std::shared_ptr<arrow::RecordBatch> batch;;) {
        must(batches->ReadNext(&batch));
        if (!batch || !writer.write(*batch, static_cast<double>(writer.row + batch->num_rows()) /
                                                static_cast<double>(facts.num_rows())))
            return;
    }
}

/* Reads an IPC file, which begins with "ARROW1", or an IPC stream, which begins with a length. The library `datasets`
 * writes streams. */
void write_arrow(const std::string &path, Writer &writer)
{
    auto file = must(arrow::io::MemoryMappedFile::Open(path, arrow::io::FileMode::READ));
    auto size = static_cast<double>(must(file->GetSize()));
    auto options = arrow::ipc::IpcReadOptions::Defaults();
    options.use_threads = false;
    options.memory_pool = arrow::system_memory_pool();
    if (must(file->Read(6))->ToString() == "ARROW1") {
        auto reader = must(arrow::ipc::RecordBatchFileReader::Open(file, options));
        writer.choose(*reader->schema());
        for (int i = 0; i < reader->num_record_batches(); i++)
            if (!writer.write(*must(reader->ReadRecordBatch(i)), (i + 1.0) / reader->num_record_batches()))
                return;
        return;
    }
    must(file->Seek(0));
    auto reader = must(arrow::ipc::RecordBatchStreamReader::Open(file, options));
    writer.choose(*reader->schema());
    for (std::shared_ptr<arrow::RecordBatch> batch;;) {
        must(reader->ReadNext(&batch));
        if (!batch || !writer.write(*batch, static_cast<double>(must(file->Tell())) / size))
            return;
    }
}

/* A file is Parquet if it begins so, or if its name says so, which gives a damaged file the message about Parquet. */
bool is_parquet(const std::string &path)
{
    size_t length = path.size();
    auto file = must(arrow::io::ReadableFile::Open(path));
    return must(file->Read(4))->ToString() == "PAR1" ||
           (length > 8 && strcasecmp(path.c_str() + length - 8, ".parquet") == 0);
}

char *write(const char *path, const char *const *columns, ce_rows_put *put, ce_rows_unread *unread, void *to)
{
    Writer writer{ columns, put, to, {}, {}, 0, {} };
    arrow::util::InitializeUTF8(); // ValidateUTF8 accepts any bytes before it
    try {
        if (is_parquet(path))
            write_parquet(path, writer);
        else
            write_arrow(path, writer);
        for (const std::string &name : writer.others)
            unread(to, name.c_str(), writer.row);
        return nullptr;
    } catch (const std::exception &problem) {
        std::string sentence = problem.what();
        if (!writer.column.empty())
            sentence = "row " + std::to_string(writer.row + 1) + ", column \"" + writer.column + "\": " + sentence;
        else if (writer.row > 0)
            sentence = "behind row " + std::to_string(writer.row) + ": " + sentence;
        return strdup(sentence.c_str());
    }
}

} // namespace

extern "C" {
extern __attribute__((visibility("default"))) const ce_rows_module ce_module_arrow;
const ce_rows_module ce_module_arrow = { CE_ROWS_EDITION, CE_RELEASE, write };
}
