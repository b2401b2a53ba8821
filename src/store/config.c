/* Small JSON files, and the config.json that lies beside weights. */
#include "store/content.h"

zoe_status zoe_json_parse(zoe_context *ctx, json_t **root, const char *text, size_t size,
                          const char *what)
{
    json_error_t error;
    *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!*root) { /* without memory, jansson finds syntax errors where there are none */
        TRY(zoe_alloc_probe(ctx, size, what));
        return zoe_fail(ctx, ZOE_FORMAT, "%s: bad JSON at line %d, column %d: %s", what, error.line,
                        error.column, error.text);
    }
    if (json_is_object(*root))
        return ZOE_OK;
    json_decref(*root);
    *root = NULL;
    return zoe_fail(ctx, ZOE_FORMAT, "%s: a JSON object is wanted at the top level", what);
}

zoe_status zoe_json_read(zoe_context *ctx, json_t **root, const char *path)
{
    zoe_map map;
    zoe_status status;
    *root = NULL;
    TRY(zoe_map_open(ctx, &map, path));
    if (map.size > ZOE_JSON_LIMIT)
        status = zoe_fail(ctx, ZOE_FORMAT, "%s: %zu bytes of JSON, at most %zu are read", path,
                          map.size, (size_t)ZOE_JSON_LIMIT);
    else
        status = zoe_json_parse(ctx, root, map.data ? (const char *)map.data : "", map.size, path);
    zoe_map_close(&map);
    return status;
}

struct zoe_config {
    char *path;
    json_t *root;
};

zoe_status zoe_config_open(zoe_context *ctx, zoe_config **config, const char *path)
{
    void *p;
    zoe_status status;
    *config = NULL;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **config, path));
    zoe_config *c = p;
    TRY_GOTO(zoe_strdup(ctx, &c->path, path));
    TRY_GOTO(zoe_json_read(ctx, &c->root, path));
    *config = c;
    c = NULL;
done:
    zoe_config_close(c);
    return status;
}

void zoe_config_close(zoe_config *config)
{
    if (!config)
        return;
    json_decref(config->root);
    zoe_free(config->path);
    zoe_free(config);
}

zoe_status zoe_config_size(zoe_context *ctx, const zoe_config *config, const char *key, size_t min,
                           size_t max, size_t *value)
{
    const json_t *found = json_object_get(config->root, key);
    if (!found)
        return ZOE_OK;
    const json_int_t i = json_integer_value(found);
    if (!json_is_integer(found) || i < 0 || (size_t)i < min || (size_t)i > max) {
        char *text = json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT);
        const zoe_status status =
            zoe_fail(ctx, ZOE_FORMAT, "%s: %s is %.80s, wanted an integer from %zu to %zu",
                     config->path, key, text ? text : "unreadable", min, max);
        free(text);
        return status;
    }
    *value = (size_t)i;
    return ZOE_OK;
}

zoe_status zoe_config_real(zoe_context *ctx, const zoe_config *config, const char *key,
                           double *value)
{
    const json_t *found = json_object_get(config->root, key);
    if (!found)
        return ZOE_OK;
    if (!json_is_number(found))
        return zoe_fail(ctx, ZOE_FORMAT, "%s: %s is no number", config->path, key);
    *value = json_number_value(found);
    return ZOE_OK;
}

/* One list of numbers into values; false if it is none of this length. */
static bool read_numbers(double *values, const json_t *list, size_t n)
{
    const double most = 1e6;
    if (!json_is_array(list) || json_array_size(list) != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *number = json_array_get(list, i);
        values[i] = json_number_value(number);
        if (!json_is_number(number) || !(fabs(values[i]) <= most))
            return false;
    }
    return true;
}

zoe_status zoe_config_reals(zoe_context *ctx, const zoe_config *config, const char *key,
                            double *values, size_t rows, size_t columns)
{
    const json_t *found = json_object_get(config->root, key);
    bool good = rows == 1 || (json_is_array(found) && json_array_size(found) == rows);
    for (size_t i = 0; i < rows && good; i++)
        good = read_numbers(values + i * columns, rows == 1 ? found : json_array_get(found, i),
                            columns);
    if (!good)
        return zoe_fail(ctx, ZOE_FORMAT,
                        "%s: %s is wanted as %zu x %zu numbers between -1000000 and 1000000",
                        config->path, key, rows, columns);
    return ZOE_OK;
}

const char *zoe_config_text(const zoe_config *config, const char *key)
{
    return json_string_value(json_object_get(config->root, key));
}
