/* quick.c - the part of a vector's step that Python itself is too slow for: handing dicts of
 * actions to environments and taking apart the dicts that they return.
 *
 * The only file here that knows Python, by its stable interface. Everything it does is also
 * written in Python (seer/vector/quick.py), which is used where this can't be loaded; a test
 * compares the two. */
#ifndef Py_GIL_DISABLED
#define Py_LIMITED_API 0x030A0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#if defined(Py_LIMITED_API) && Py_LIMITED_API < 0x030B0000
/* Stable since 3.11, and the same in 3.10, whose headers hide it from who limits himself. */
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len, itemsize;
    int readonly, ndim;
    char *format;
    Py_ssize_t *shape, *strides, *suboffsets;
    void *internal;
} Py_buffer;
#define PyBUF_FORMAT 0x0004
#define PyBUF_ND 0x0008
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject *, Py_buffer *, int);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *);
#endif

static PyObject *name_step, *name_agents;

/* 1: every value is false; 0: one is true; -1: one is neither, with an exception. */
static int all_false(PyObject *flags)
{
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(flags, &at, &key, &value)) {
        if (value == Py_False) continue;
        int truth = value == Py_True ? 1 : PyObject_IsTrue(value);
        if (truth) return truth < 0 ? -1 : 0;
    }
    return 1;
}

/* 1: no info has anything in it; 0: one has; -1: an exception. */
static int all_empty(PyObject *infos)
{
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(infos, &at, &key, &value)) {
        int truth = PyDict_Check(value) ? PyDict_Size(value) != 0 : PyObject_IsTrue(value);
        if (truth) return truth < 0 ? -1 : 0;
    }
    return 1;
}

static int is_dict_of(PyObject *thing, Py_ssize_t count)
{
    return PyDict_Check(thing) && PyDict_Size(thing) == count;
}

/* A dict's values in the order of names, borrowed. The dict was mostly made in the order of keys,
 * of these very objects: then nothing is looked up. keys is None where its order is another than
 * that of names. 1, 0 where a name is missing, or -1 with an exception. */
static int values_of(PyObject *dict, PyObject *names, PyObject *keys, PyObject **room)
{
    Py_ssize_t count = PyTuple_Size(names), at = 0, k = 0;
    PyObject *key, *value;
    if (keys != Py_None)
        while (k < count && PyDict_Next(dict, &at, &key, &value) && key == PyList_GetItem(keys, k))
            room[k++] = value;
    for (; k < count; k++) {
        room[k] = PyDict_GetItemWithError(dict, PyTuple_GetItem(names, k));
        if (!room[k]) return PyErr_Occurred() ? -1 : 0;
    }
    return 1;
}

/* Appends a dict's values in the order of names; as values_of, and nothing where not 1. */
static int gather(PyObject *dict, PyObject *names, PyObject *keys, PyObject **room, PyObject *into)
{
    int found = values_of(dict, names, keys, room);
    for (Py_ssize_t k = 0; found == 1 && k < PyTuple_Size(names); k++)
        if (PyList_Append(into, room[k])) return -1;
    return found;
}

/* Rewards in the order of names as doubles. 1, 0 where one is missing or no plain number (an
 * array of one element, say), or -1 with an exception. */
static int numbers(PyObject *dict, PyObject *names, PyObject *keys, PyObject **room, double *into)
{
    Py_ssize_t count = PyTuple_Size(names), k;
    int found = values_of(dict, names, keys, room);
    if (found != 1) return found;
    for (k = 0; k < count && PyFloat_CheckExact(room[k]); k++) into[k] = PyFloat_AsDouble(room[k]);
    for (; k < count; k++) { /* from here on others' code may run, and change the dict */
        PyObject *value = PyDict_GetItemWithError(dict, PyTuple_GetItem(names, k));
        if (!value) return PyErr_Occurred() ? -1 : 0;
        if (!PyFloat_Check(value) && !PyLong_Check(value) &&
            (PySequence_Check(value) || !PyNumber_Check(value)))
            return 0;
        into[k] = PyFloat_AsDouble(value);
        if (into[k] == -1.0 && PyErr_Occurred()) return -1;
    }
    return 1;
}

/* What one environment returned, if everybody is there and nobody's life ends: its observations
 * are appended, its rewards written. 1, 0 where something is special (nothing is appended), -1
 * with an exception. */
static int take(
    PyObject *result, PyObject *look, PyObject *names, PyObject **room, PyObject *obs,
    double *rewards, PyObject **infos)
{
    Py_ssize_t count = PyTuple_Size(names);
    if (!PyTuple_Check(result) || PyTuple_Size(result) != 5) return 0;
    PyObject *seen = PyTuple_GetItem(result, 0), *earned = PyTuple_GetItem(result, 1);
    PyObject *terms = PyTuple_GetItem(result, 2), *truncs = PyTuple_GetItem(result, 3);
    *infos = PyTuple_GetItem(result, 4);
    if (!is_dict_of(seen, count) || !is_dict_of(earned, count) || !is_dict_of(terms, count) ||
        !PyDict_Check(truncs) || !PyDict_Check(*infos))
        return 0;
    PyObject *agents = PyObject_GetAttr(PyTuple_GetItem(look, 0), name_agents);
    if (!agents) return -1;
    int usual = PyObject_RichCompareBool(agents, PyTuple_GetItem(look, 1), Py_EQ);
    Py_DECREF(agents);
    if (usual == 1) usual = all_false(terms);
    if (usual == 1) usual = all_false(truncs);
    PyObject *keys = PyTuple_GetItem(look, 2);
    if (usual == 1) usual = numbers(earned, names, keys, room, rewards);
    if (usual == 1) usual = gather(seen, names, keys, room, obs);
    return usual;
}

/* The dict that an environment is given, from a list of actions or ready-made. */
static PyObject *action_dict(PyObject *names, PyObject *row, PyObject *table)
{
    Py_ssize_t count = PyTuple_Size(names);
    if (row && PyDict_Check(row)) {
        Py_INCREF(row);
        return row;
    }
    if (!row || !PyList_Check(row) || PyList_Size(row) != count) {
        PyErr_SetString(PyExc_ValueError, "expected a list of one action for each agent");
        return NULL;
    }
    PyObject *actions = PyDict_New();
    for (Py_ssize_t k = 0; actions && k < count; k++) {
        PyObject *action = PyList_GetItem(row, k), *ready = NULL;
        if (table != Py_None) ready = PyDict_GetItemWithError(table, action);
        if ((!ready && PyErr_Occurred()) ||
            PyDict_SetItem(actions, PyTuple_GetItem(names, k), ready ? ready : action))
            Py_CLEAR(actions);
    }
    return actions;
}

/* Drops an exception that has a closer look to follow; 0 for one that isn't an error of the
 * environment's, such as Ctrl-C, which stays. */
static int overlook(void)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return 0;
    PyErr_Clear();
    return 1;
}

static int note(PyObject *list, Py_ssize_t number, PyObject *thing)
{
    PyObject *pair = Py_BuildValue("nO", number, thing);
    int failed = !pair || PyList_Append(list, pair);
    Py_XDECREF(pair);
    return failed;
}

static int is_look(PyObject *look, Py_ssize_t count)
{
    PyObject *keys = PyTuple_Check(look) && PyTuple_Size(look) == 3 ? PyTuple_GetItem(look, 2) : 0;
    if (keys && (keys == Py_None || (PyList_Check(keys) && PyList_Size(keys) == count))) return 1;
    PyErr_SetString(PyExc_ValueError, "expected (environment, agents, agents or None)");
    return 0;
}

PyDoc_STRVAR(
    run_doc,
    "run(looks, names, rows, table, obs, address, told, odd, at, results)\n--\n\n"
    "Step environments in which everybody lives.\n\n"
    "looks[j] is (the environment, what its list of agents was, the same again if that is in the\n"
    "order of names, else None). rows[j] is the list of its actions, in the order of names, and\n"
    "what stands for an action in the dict table (or None) is given instead; or it is the dict to\n"
    "give. What usual environments returned is appended to the list results (or None).\n"
    " Observations are appended in the order of names, and rewards written to row j of the\n"
    "doubles (envs, names) at address; (j, infos) goes to told where there are some, (j, result)\n"
    "to odd where something is special, and then no observation of it is appended. at[0] is the number of the environment that runs, also after an error.");

static PyObject *run(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *looks, *names, *rows, *table, *obs, *address, *told, *odd, *at, *results;
    if (!PyArg_ParseTuple(
            args, "O!O!O!OO!O!O!O!O!O", &PyList_Type, &looks, &PyTuple_Type, &names, &PyList_Type,
            &rows, &table, &PyList_Type, &obs, &PyLong_Type, &address, &PyList_Type, &told,
            &PyList_Type, &odd, &PyList_Type, &at, &results))
        return NULL;
    if (table != Py_None && !PyDict_Check(table)) {
        PyErr_SetString(PyExc_TypeError, "table must be a dict or None");
        return NULL;
    }
    Py_ssize_t n = PyList_Size(looks);
    if (PyList_Size(rows) != n) {
        PyErr_SetString(PyExc_ValueError, "looks and rows must be of one length");
        return NULL;
    }
    double *rewards = PyLong_AsVoidPtr(address);
    if (!rewards) return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    Py_ssize_t count = PyTuple_Size(names);
    PyObject **room = PyMem_Malloc(sizeof *room * (size_t)(count + 1));
    if (!room) return PyErr_NoMemory();
    for (Py_ssize_t j = 0; j < n; j++) {
        PyObject *number = PyLong_FromSsize_t(j);
        if (!number || PyList_SetItem(at, 0, number)) goto failed;
        PyObject *look = PyList_GetItem(looks, j), *infos = NULL;
        if (!look) goto failed; /* somebody made the list shorter meanwhile */
        if (!is_look(look, count)) goto failed;
        PyObject *actions = action_dict(names, PyList_GetItem(rows, j), table);
        if (!actions) goto failed;
        Py_INCREF(look);
        PyObject *result =
            PyObject_CallMethodObjArgs(PyTuple_GetItem(look, 0), name_step, actions, NULL);
        Py_DECREF(actions);
        if (!result) {
            Py_DECREF(look);
            goto failed;
        }
        int usual = take(result, look, names, room, obs, rewards + j * count, &infos);
        int failed = usual < 0 && !overlook(); /* looked at closely, where it gets its message */
        if (failed) {
            ;
        } else if (usual == 1) {
            int empty = all_empty(infos);
            if (empty < 0) failed = !overlook();
            if (!failed && empty != 1) failed = note(told, j, infos);
            if (!failed && results != Py_None) failed = PyList_Append(results, result);
        } else {
            failed = note(odd, j, result);
        }
        Py_DECREF(look);
        Py_DECREF(result);
        if (failed) goto failed;
    }
    PyMem_Free(room);
    Py_RETURN_NONE;
failed:
    PyMem_Free(room);
    return NULL;
}

/* The dict `thing` may be handed on as it is: nobody but the tuple it came in holds it, and
 * nobody but a list of ours that (see `lists`). */
static int is_free(PyObject *thing)
{
#ifdef Py_GIL_DISABLED
    (void)thing;
    return 0;
#else
    return PyDict_CheckExact(thing) && Py_REFCNT(thing) == 1;
#endif
}

static int all_are(PyObject *dict, int (*good)(PyObject *))
{
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &at, &key, &value))
        if (!good(value)) return 0;
    return 1;
}

static int is_float(PyObject *value) { return PyFloat_CheckExact(value); }
static int is_false(PyObject *value) { return value == Py_False; }
static int is_nothing(PyObject *value) { return is_free(value) && PyDict_Size(value) == 0; }

/* A part of a result, handed on if it may be, or nothing. */
static PyObject *taken(PyObject *part, Py_ssize_t count, int (*good)(PyObject *))
{
    if (!is_free(part) || PyDict_Size(part) != count || (good && !all_are(part, good))) return NULL;
    Py_INCREF(part);
    return part;
}

static PyObject *rewards_of(PyObject *names, const double *rewards)
{
    PyObject *dict = PyDict_New();
    for (Py_ssize_t k = 0; dict && k < PyTuple_Size(names); k++) {
        PyObject *reward = PyFloat_FromDouble(rewards[k]);
        if (!reward || PyDict_SetItem(dict, PyTuple_GetItem(names, k), reward)) Py_CLEAR(dict);
        Py_XDECREF(reward);
    }
    return dict;
}

static PyObject *flags_of(PyObject *names)
{
    PyObject *dict = PyDict_New();
    for (Py_ssize_t k = 0; dict && k < PyTuple_Size(names); k++)
        if (PyDict_SetItem(dict, PyTuple_GetItem(names, k), Py_False)) Py_CLEAR(dict);
    return dict;
}

static PyObject *infos_of(PyObject *names)
{
    PyObject *dict = PyDict_New();
    for (Py_ssize_t k = 0; dict && k < PyTuple_Size(names); k++) {
        PyObject *info = PyDict_New();
        if (!info || PyDict_SetItem(dict, PyTuple_GetItem(names, k), info)) Py_CLEAR(dict);
        Py_XDECREF(info);
    }
    return dict;
}

/* The observations of one environment: the rows of an array, in a dict that is new or free. */
static PyObject *rows_of(PyObject *names, PyObject *row, PyObject *dict)
{
    if (!dict) dict = PyDict_New();
    for (Py_ssize_t k = 0; dict && k < PyTuple_Size(names); k++) {
        PyObject *value = PySequence_GetItem(row, k);
        if (!value || PyDict_SetItem(dict, PyTuple_GetItem(names, k), value)) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

PyDoc_STRVAR(
    lists_doc,
    "lists(names, block, address, results)\n--\n\n"
    "The usual results of a step by environment and agent.\n\n"
    "block[i][k] is the observation of agent k of environment i; the doubles (len(block), names)\n"
    "at address are its rewards; results[i] is what it returned (or results is None): dicts that\n"
    "nobody else holds are handed on, if what is in them is as it should be. Gives five lists\n"
    "with a dict for each environment: observations, rewards, terminations and truncations, all\n"
    "False, and infos, all empty.");

static PyObject *lists(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *names, *block, *address, *results, *out = NULL, *parts[5] = {0};
    if (!PyArg_ParseTuple(
            args, "O!OO!O", &PyTuple_Type, &names, &block, &PyLong_Type, &address, &results))
        return NULL;
    const double *rewards = PyLong_AsVoidPtr(address);
    if (!rewards) return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    Py_ssize_t n = PySequence_Size(block), count = PyTuple_Size(names);
    if (n < 0) return NULL;
    if (results != Py_None && (!PyList_Check(results) || PyList_Size(results) != n)) {
        PyErr_SetString(PyExc_ValueError, "expected one result for each environment");
        return NULL;
    }
    for (int p = 0; p < 5; p++)
        if (!(parts[p] = PyList_New(n))) goto done;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *dicts[5] = {0}, *row = PySequence_GetItem(block, i);
        if (!row) goto done;
        PyObject *result = results == Py_None ? NULL : PyList_GetItem(results, i);
        if (result && Py_REFCNT(result) == 1) { /* else the environment keeps the tuple */
            dicts[0] = taken(PyTuple_GetItem(result, 0), count, NULL);
            dicts[1] = taken(PyTuple_GetItem(result, 1), count, is_float);
            dicts[2] = taken(PyTuple_GetItem(result, 2), count, is_false);
            dicts[3] = taken(PyTuple_GetItem(result, 3), count, is_false);
            dicts[4] = taken(PyTuple_GetItem(result, 4), count, is_nothing);
        }
        dicts[0] = rows_of(names, row, dicts[0]);
        if (!dicts[1]) dicts[1] = rewards_of(names, rewards + i * count);
        if (!dicts[2]) dicts[2] = flags_of(names);
        if (!dicts[3]) dicts[3] = flags_of(names);
        if (!dicts[4]) dicts[4] = infos_of(names);
        Py_DECREF(row);
        int failed = 0;
        for (int p = 0; p < 5; p++)
            if (!dicts[p] || PyList_SetItem(parts[p], i, dicts[p])) failed = 1; /* steals it */
        if (failed) goto done;
    }
    out = PyTuple_Pack(5, parts[0], parts[1], parts[2], parts[3], parts[4]);
done:
    for (int p = 0; p < 5; p++) Py_XDECREF(parts[p]);
    return out;
}

PyDoc_STRVAR(
    ready_doc,
    "ready(given, names, table, scalar)\n--\n\n"
    "Dicts of actions as environments are given them, or None.\n\n"
    "Each dict of the list given must have exactly these names, with ints that are in the dict\n"
    "table (number -> scalar) or values of the type scalar; anything else gives None.");

static PyObject *ready(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *given, *names, *table, *scalar;
    if (!PyArg_ParseTuple(
            args, "OO!O!O!", &given, &PyTuple_Type, &names, &PyDict_Type, &table, &PyType_Type,
            &scalar))
        return NULL;
    if (!PyList_Check(given)) Py_RETURN_NONE;
    Py_ssize_t n = PyList_Size(given), count = PyTuple_Size(names);
    PyObject *out = PyList_New(n);
    if (!out) return NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *from = PyList_GetItem(given, i);
        if (!PyDict_CheckExact(from) || PyDict_Size(from) != count) goto none;
        PyObject *dict = PyDict_Copy(from);
        if (!dict || PyList_SetItem(out, i, dict)) goto failed;
        for (Py_ssize_t k = 0; k < count; k++) {
            PyObject *name = PyTuple_GetItem(names, k);
            PyObject *action = PyDict_GetItemWithError(from, name);
            if (action && (PyObject *)Py_TYPE(action) == scalar) continue;
            if (action && PyLong_CheckExact(action))
                action = PyDict_GetItemWithError(table, action);
            else
                action = NULL;
            if (!action) {
                if (PyErr_Occurred()) goto failed;
                goto none;
            }
            if (PyDict_SetItem(dict, name, action)) goto failed;
        }
    }
    return out;
none:
    Py_DECREF(out);
    Py_RETURN_NONE;
failed:
    Py_DECREF(out);
    return NULL;
}

PyDoc_STRVAR(
    pack_doc,
    "pack(values, kind, format, shape, address)\n--\n\n"
    "Copy arrays into memory, one after the other.\n\n"
    "Each of the list values must be of the type kind, and its elements of the format of the\n"
    "buffer protocol, contiguous, of the tuple shape. Gives False, with some of them copied,\n"
    "where one isn't.");

enum { MOST_AXES = 8 };

static PyObject *pack(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *values, *kind, *shape, *address;
    const char *format;
    if (!PyArg_ParseTuple(
            args, "O!OsO!O!", &PyList_Type, &values, &kind, &format, &PyTuple_Type, &shape,
            &PyLong_Type, &address))
        return NULL;
    char *into = PyLong_AsVoidPtr(address);
    if (!into) return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    Py_ssize_t axes[MOST_AXES];
    int ndim = (int)PyTuple_Size(shape);
    if (ndim > MOST_AXES) Py_RETURN_FALSE;
    for (int d = 0; d < ndim; d++) {
        axes[d] = PyLong_AsSsize_t(PyTuple_GetItem(shape, d));
        if (axes[d] < 0) return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    for (Py_ssize_t k = 0; k < PyList_Size(values); k++) {
        PyObject *value = PyList_GetItem(values, k);
        Py_buffer view;
        if ((PyObject *)Py_TYPE(value) != kind) Py_RETURN_FALSE;
        if (PyObject_GetBuffer(value, &view, PyBUF_ND | PyBUF_FORMAT)) {
            PyErr_Clear();
            Py_RETURN_FALSE;
        }
        int good = view.ndim == ndim && view.format && !strcmp(view.format, format) &&
                   !memcmp(view.shape, axes, sizeof *axes * (size_t)ndim);
        if (good) {
            memcpy(into, view.buf, (size_t)view.len);
            into += view.len;
        }
        PyBuffer_Release(&view);
        if (!good) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {
    {"pack", pack, METH_VARARGS, pack_doc},
    {"run", run, METH_VARARGS, run_doc},
    {"lists", lists, METH_VARARGS, lists_doc},
    {"ready", ready, METH_VARARGS, ready_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_quick", "What a vector's step does with dicts, in C.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__quick(void)
{
    name_step = PyUnicode_InternFromString("step");
    name_agents = PyUnicode_InternFromString("agents");
    if (!name_step || !name_agents) return NULL;
    return PyModule_Create(&module);
}
