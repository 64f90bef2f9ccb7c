/* quick.c - the part of a vector's step that Python itself is too slow for: handing dicts of
 * actions to environments and taking apart the dicts that they return.
 *
 * The only file here that knows Python, by its stable interface. Everything it does is also
 * written in Python (seer/vector/host.py), which is used where this can't be loaded; a test
 * compares the two. */
#ifndef Py_GIL_DISABLED
#define Py_LIMITED_API 0x030A0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

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

/* Appends a dict's values in the order of names. 1, or 0 where one is missing (nothing is
 * appended), or -1 with an exception. */
static int gather(PyObject *dict, PyObject *names, PyObject **room, PyObject *into)
{
    Py_ssize_t count = PyTuple_Size(names);
    for (Py_ssize_t k = 0; k < count; k++) {
        room[k] = PyDict_GetItemWithError(dict, PyTuple_GetItem(names, k));
        if (!room[k]) return PyErr_Occurred() ? -1 : 0;
    }
    for (Py_ssize_t k = 0; k < count; k++)
        if (PyList_Append(into, room[k])) return -1;
    return 1;
}

/* What one environment returned, if everybody is there and nobody's life ends: its observations
 * and rewards are appended. 1, 0 where something is special, -1 with an exception. */
static int take(
    PyObject *result, PyObject *env, PyObject *order, PyObject *names, PyObject **room,
    PyObject *obs, PyObject *rewards, PyObject **infos)
{
    Py_ssize_t count = PyTuple_Size(names);
    if (!PyTuple_Check(result) || PyTuple_Size(result) != 5) return 0;
    PyObject *seen = PyTuple_GetItem(result, 0), *earned = PyTuple_GetItem(result, 1);
    PyObject *terms = PyTuple_GetItem(result, 2), *truncs = PyTuple_GetItem(result, 3);
    *infos = PyTuple_GetItem(result, 4);
    if (!is_dict_of(seen, count) || !is_dict_of(earned, count) || !is_dict_of(terms, count) ||
        !PyDict_Check(truncs) || !PyDict_Check(*infos))
        return 0;
    PyObject *agents = PyObject_GetAttr(env, name_agents);
    if (!agents) return -1;
    int same = PyObject_RichCompareBool(agents, order, Py_EQ);
    Py_DECREF(agents);
    if (same != 1) return same;
    int quiet = all_false(terms);
    if (quiet == 1) quiet = all_false(truncs);
    if (quiet != 1) return quiet;
    /* Rewards first into their own list: if a name is missing in the other, nothing is kept. */
    Py_ssize_t before = PyList_Size(obs);
    int got = gather(seen, names, room, obs);
    if (got != 1) return got;
    got = gather(earned, names, room, rewards);
    if (got != 1) PyList_SetSlice(obs, before, PyList_Size(obs), NULL);
    return got;
}

static PyObject *action_dict(PyObject *names, PyObject *row)
{
    Py_ssize_t count = PyTuple_Size(names);
    if (!PyList_Check(row) || PyList_Size(row) != count) {
        PyErr_SetString(PyExc_ValueError, "expected a list of one action for each agent");
        return NULL;
    }
    PyObject *actions = PyDict_New();
    for (Py_ssize_t k = 0; actions && k < count; k++)
        if (PyDict_SetItem(actions, PyTuple_GetItem(names, k), PyList_GetItem(row, k)))
            Py_CLEAR(actions);
    return actions;
}

static int note(PyObject *list, Py_ssize_t number, PyObject *thing)
{
    PyObject *pair = Py_BuildValue("nO", number, thing);
    int failed = !pair || PyList_Append(list, pair);
    Py_XDECREF(pair);
    return failed;
}

PyDoc_STRVAR(
    run_doc,
    "run(envs, orders, names, rows, obs, rewards, told, odd, at)\n--\n\n"
    "Step environments in which everybody lives.\n\n"
    "rows[j] is the list of actions of envs[j], in the order of names; orders[j] what its list of\n"
    "agents was. Observations and rewards are appended in the order of names; (j, infos) to told\n"
    "where there are some; (j, result) to odd where something is special, and then nothing else\n"
    "is appended for it. at[0] is the number of the environment that runs, also after an error.");

static PyObject *run(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *envs, *orders, *names, *rows, *obs, *rewards, *told, *odd, *at;
    if (!PyArg_ParseTuple(
            args, "O!O!O!O!O!O!O!O!O!", &PyList_Type, &envs, &PyList_Type, &orders, &PyTuple_Type,
            &names, &PyList_Type, &rows, &PyList_Type, &obs, &PyList_Type, &rewards, &PyList_Type,
            &told, &PyList_Type, &odd, &PyList_Type, &at))
        return NULL;
    Py_ssize_t n = PyList_Size(envs);
    if (PyList_Size(orders) != n || PyList_Size(rows) != n) {
        PyErr_SetString(PyExc_ValueError, "envs, orders and rows must be of one length");
        return NULL;
    }
    PyObject **room = PyMem_Malloc(sizeof *room * (size_t)(PyTuple_Size(names) + 1));
    if (!room) return PyErr_NoMemory();
    for (Py_ssize_t j = 0; j < n; j++) {
        PyObject *number = PyLong_FromSsize_t(j);
        if (!number || PyList_SetItem(at, 0, number)) goto failed;
        PyObject *env = PyList_GetItem(envs, j), *infos = NULL;
        if (!env) goto failed; /* somebody made the list shorter meanwhile */
        PyObject *actions = action_dict(names, PyList_GetItem(rows, j));
        if (!actions) goto failed;
        Py_INCREF(env);
        PyObject *result = PyObject_CallMethodObjArgs(env, name_step, actions, NULL);
        Py_DECREF(actions);
        if (!result) {
            Py_DECREF(env);
            goto failed;
        }
        int usual =
            take(result, env, PyList_GetItem(orders, j), names, room, obs, rewards, &infos);
        int failed = 0;
        if (usual < 0) PyErr_Clear(); /* looked at closely, where it gets its message */
        if (usual == 1) {
            int empty = all_empty(infos);
            if (empty < 0) PyErr_Clear();
            if (empty != 1) failed = note(told, j, infos);
        } else {
            failed = note(odd, j, result);
        }
        Py_DECREF(env);
        Py_DECREF(result);
        if (failed) goto failed;
    }
    PyMem_Free(room);
    Py_RETURN_NONE;
failed:
    PyMem_Free(room);
    return NULL;
}

static PyMethodDef methods[] = {
    {"run", run, METH_VARARGS, run_doc},
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
