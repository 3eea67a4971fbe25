"""The built-in kinds as rows: ``group/version plural Kind`` and flags.

Flags: ``cluster`` (not namespaced), ``virtual`` (nothing is stored), ``short=``, ``categories=``, ``verbs=``,
``sub=`` (subresources), ``storage=`` (shown from another resource's objects). A dotted group is as in URLs.
"""

BUILTIN = """
core/v1 bindings Binding verbs=create virtual
core/v1 componentstatuses ComponentStatus cluster short=cs verbs=get,list virtual
core/v1 configmaps ConfigMap short=cm
core/v1 endpoints Endpoints short=ep
core/v1 events Event short=ev
core/v1 limitranges LimitRange short=limits
core/v1 namespaces Namespace cluster short=ns verbs=create,delete,get,list,patch,update,watch sub=finalize,status
core/v1 nodes Node cluster short=no sub=proxy,status
core/v1 persistentvolumeclaims PersistentVolumeClaim short=pvc sub=status
core/v1 persistentvolumes PersistentVolume cluster short=pv sub=status
core/v1 pods Pod short=po categories=all sub=attach,binding,ephemeralcontainers,eviction,exec,log,portforward,proxy,resize,status
core/v1 podtemplates PodTemplate
core/v1 replicationcontrollers ReplicationController short=rc categories=all sub=scale,status
core/v1 resourcequotas ResourceQuota short=quota sub=status
core/v1 secrets Secret
core/v1 serviceaccounts ServiceAccount short=sa sub=token
core/v1 services Service short=svc categories=all sub=proxy,status
admissionregistration.k8s.io/v1 mutatingwebhookconfigurations MutatingWebhookConfiguration cluster categories=api-extensions
admissionregistration.k8s.io/v1 validatingadmissionpolicies ValidatingAdmissionPolicy cluster categories=api-extensions sub=status
admissionregistration.k8s.io/v1 validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding cluster categories=api-extensions
admissionregistration.k8s.io/v1 validatingwebhookconfigurations ValidatingWebhookConfiguration cluster categories=api-extensions
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition cluster short=crd,crds categories=api-extensions sub=status
apps/v1 controllerrevisions ControllerRevision
apps/v1 daemonsets DaemonSet short=ds categories=all sub=status
apps/v1 deployments Deployment short=deploy categories=all sub=scale,status
apps/v1 replicasets ReplicaSet short=rs categories=all sub=scale,status
apps/v1 statefulsets StatefulSet short=sts categories=all sub=scale,status
authentication.k8s.io/v1 selfsubjectreviews SelfSubjectReview cluster verbs=create virtual
authentication.k8s.io/v1 tokenreviews TokenReview cluster verbs=create virtual
authorization.k8s.io/v1 localsubjectaccessreviews LocalSubjectAccessReview verbs=create virtual
authorization.k8s.io/v1 selfsubjectaccessreviews SelfSubjectAccessReview cluster verbs=create virtual
authorization.k8s.io/v1 selfsubjectrulesreviews SelfSubjectRulesReview cluster verbs=create virtual
authorization.k8s.io/v1 subjectaccessreviews SubjectAccessReview cluster verbs=create virtual
autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler short=hpa categories=all sub=status
batch/v1 cronjobs CronJob short=cj categories=all sub=status
batch/v1 jobs Job categories=all sub=status
coordination.k8s.io/v1 leases Lease
discovery.k8s.io/v1 endpointslices EndpointSlice
events.k8s.io/v1 events Event short=ev storage=events
networking.k8s.io/v1 ingressclasses IngressClass cluster
networking.k8s.io/v1 ingresses Ingress short=ing sub=status
networking.k8s.io/v1 networkpolicies NetworkPolicy short=netpol
node.k8s.io/v1 runtimeclasses RuntimeClass cluster
policy/v1 poddisruptionbudgets PodDisruptionBudget short=pdb sub=status
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding cluster
rbac.authorization.k8s.io/v1 clusterroles ClusterRole cluster
rbac.authorization.k8s.io/v1 rolebindings RoleBinding
rbac.authorization.k8s.io/v1 roles Role
scheduling.k8s.io/v1 priorityclasses PriorityClass cluster short=pc
storage.k8s.io/v1 csidrivers CSIDriver cluster
storage.k8s.io/v1 csinodes CSINode cluster
storage.k8s.io/v1 csistoragecapacities CSIStorageCapacity
storage.k8s.io/v1 storageclasses StorageClass cluster short=sc
storage.k8s.io/v1 volumeattachments VolumeAttachment cluster sub=status
"""
